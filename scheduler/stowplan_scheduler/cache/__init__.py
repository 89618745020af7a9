"""What the scheduler knows of the cluster: cache, snapshot, and the columns and counters that rules read."""
