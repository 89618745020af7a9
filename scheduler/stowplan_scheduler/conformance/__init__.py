"""The conformance suite: the oracle's scenario lines in, the oracle's result lines out.

    python -m stowplan_scheduler.conformance evaluate|run|config < scenarios.jsonl

The formats are those of the oracle (tests/conformance/README.md). A scenario that needs something that is not built
gives
`{"id": ..., "unsupported": "<what>"}`: never a wrong answer. This is the one package of the scheduler that reads and
prints.
"""
