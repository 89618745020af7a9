"""The table of speeds: `run.py` measures what `workloads.yaml` lists, beside the real kube-scheduler where it can.

docs/benchmarks.md says what is in the figures.
"""
