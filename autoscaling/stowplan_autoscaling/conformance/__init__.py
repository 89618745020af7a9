"""Answers scenarios of the controller oracle: JSON lines in, JSON lines out.

    python -m stowplan_autoscaling.conformance hpa < scenarios.jsonl > timelines.jsonl

The scenarios put a small world around the code that is compared: stubs of pods, metrics and writers, kept as simple as
the oracle's own (tests/conformance/controllers). They are no part of the simulator.
"""
