"""Nodes that come and go: pools, the provider of machines, and the two engines that decide about them."""
