"""Preemption: which pods would have to go so that a pod of higher priority fits, and how they are sent away.

* `default_preemption`: the plugin, and who may preempt at all
* `candidates`: which nodes are tried, and how many are enough
* `victims`: the dry run on many nodes at once, with `importance` and `budgets`
* `choice`: the best of the candidates
* `executor`: carries the choice out, effect by effect
"""
