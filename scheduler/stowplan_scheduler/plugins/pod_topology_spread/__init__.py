"""PodTopologySpread."""
