"""A cluster in virtual time: reads what a cluster looks like, runs the scheduler core on it, reports what happened.

The scheduler in here is ``stowplan_scheduler`` itself, not a model of it. The only IO of this package is reading its
inputs.
"""
