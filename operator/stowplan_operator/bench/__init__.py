"""Speed of the scheduler core, measured the way the real scheduler is measured beside it."""
