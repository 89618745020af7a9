"""What the user's steps change in nodes and in the specs of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_scheduler.objects import Taint


def changed_node(node: Any, step: Mapping[str, Any]) -> Any:
    """The node after a step `taint`, `untaint` (by key) or `label` (an empty value takes the label off)."""
    if step["op"] == "label":
        labels = dict(node.metadata.labels)
        for key, value in step["labels"].items():
            labels[key] = value
            if not value:
                del labels[key]
        return replace(node, metadata=replace(node.metadata, labels=labels))
    taint = msgspec.convert(without_nulls(step["taint"]), Taint)
    if step["op"] == "taint":
        taints = (*node.spec.taints, taint)
    else:
        taints = tuple(each for each in node.spec.taints if each.key != taint.key)
    return replace(node, spec=replace(node.spec, taints=taints))


def changed_spec(spec: Any, step: Mapping[str, Any]) -> Any:
    """The spec after a step `scale`, `suspend`, `partition` or `rollout`."""
    operation, number = step["op"], step.get("n", 0)
    if operation == "scale":
        return replace(spec, parallelism=number) if step["kind"] == "job" else replace(spec, replicas=number)
    if operation == "suspend":
        return replace(spec, suspend=bool(step.get("on")))
    if operation == "partition":
        strategy = spec.update_strategy
        rolling = replace(spec.rolling_update, partition=number)
        return replace(spec, update_strategy=replace(strategy, rolling_update=rolling))
    annotations = {**spec.template.metadata.annotations, "rollout": f"{step['t']:g}"}
    template = replace(spec.template, metadata=replace(spec.template.metadata, annotations=annotations))
    return replace(spec, template=template)
