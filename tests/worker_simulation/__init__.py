"""The fault simulation: real worker machines, electors and stores in a world of plain objects and virtual time.

`python -m worker_simulation --seeds 100` runs it; docs/architecture/worker.md says what is simulated and checked.
"""
