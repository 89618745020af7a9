"""Whether a NodePool or a Simulation could be simulated: checked as `stowplan simulate` checks it.

A check may build a cluster of many thousand nodes, so it runs in a process of its own, with little memory and little
time (`model_checking`). That process is this module:

    echo '{"kind": "NodePool", "name": "spot", "spec": {...}}' | python -m stowplan_operator.handlers.model_checks

It prints {"field": ..., "message": ...} if something is wrong, and {} if not.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from stowplan_autoscaling.inputs.errors import FieldError, InputError
from stowplan_autoscaling.inputs.sources import Format
from stowplan_autoscaling.resources.findings import field_error
from stowplan_autoscaling.resources.load import check_simulation, parse_simulation
from stowplan_autoscaling.resources.manifests import Files
from stowplan_autoscaling.resources.pool_loading import pools_of
from stowplan_operator.resources.node_pool import NodePool, as_simulated

from .choosing import ProblemError
from .names import API_VERSION, NODE_POOL, SIMULATION

MEMORY_BYTES: Final = 2 << 30
"""A simulation of 5,000 nodes and 100,000 pods takes less."""

_POOL: Final = "spec.nodePools[0]"
_MACHINES: Final = "spec.instanceTypes"


class NoFiles(Files):
    """A custom resource has no files beside it, and those of the operator are none of its business."""

    def __init__(self) -> None:
        super().__init__("")

    def read(self, path: str) -> tuple[bytes, Format]:
        """Refuses."""
        raise InputError("", "", "", "a Simulation in a cluster has no files: put the objects themselves into it")

    def note(self, path: str) -> None:
        """Refuses."""
        self.read(path)

    def expand(self, names: Iterable[str], field: str, source: str) -> Iterator[str]:
        """Refuses the first name."""
        for index, name in enumerate(names):
            try:
                self.read(name)
            except InputError as error:
                raise InputError("", "", f"{field}[{index}]", error.message) from None
            yield name


def check_model(kind: str, name: str, spec: Mapping[str, Any]) -> None:
    """Raises ProblemError that names the field."""
    try:
        if kind == NODE_POOL:
            _check_node_pool(name, spec)
        else:
            check_simulation(_document(SIMULATION, name, spec), NoFiles())
    except FieldError as error:
        raise _problem(InputError.of("", "", error)) from None
    except InputError as error:
        raise _problem(error) from None
    except RecursionError:
        raise ProblemError("spec", "nests too deep") from None


def _problem(error: InputError) -> ProblemError:
    """The finding with its field. `source` is the place of an object that stands inside of the custom resource."""
    place = error.source.removeprefix(": ")
    if place:
        parts = (error.object, error.field, error.message)
        return ProblemError(place, ": ".join(part for part in parts if part))
    message = f"{error.object}: {error.message}" if error.object else error.message
    return ProblemError(error.field or "spec", message)


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _check_node_pool(name: str, spec: Mapping[str, Any]) -> None:
    """A pool is good if one of the two engines could use it, in a Simulation that has nothing else."""
    try:
        pool = NodePool.model_validate(_document(NODE_POOL, name, spec))
        simulated = as_simulated(pool)
    except ValidationError as error:
        raise field_error(error, NodePool) from None
    # Only the Cluster Autoscaler keeps a minimum; all else that pools can have, Karpenter has.
    engine = "clusterAutoscaler" if pool.spec.min else "karpenter"
    value = _document(
        SIMULATION,
        name,
        {
            "duration": "1h",
            "cluster": {},
            "supply": {engine: {}},
            "provider": pool.spec.provider.model_dump(by_alias=True, mode="json", exclude_unset=True),
            "nodePools": [simulated.model_dump(by_alias=True, mode="json", exclude_unset=True)],
            "instanceTypes": [
                machine.model_dump(by_alias=True, mode="json", exclude_unset=True) for machine in pool.spec.machines
            ],
        },
    )
    try:
        # Prices may come with a simulation: any will do.
        pools_of(parse_simulation(value).spec, {}, lambda *_: 1.0)
    except FieldError as error:
        raise FieldError(_of_node_pool(error.field), error.message) from None


def _of_node_pool(field: str) -> str:
    """The field of the custom resource for one of the simulation around it."""
    if field.startswith(f"{_POOL}.instanceTypes"):
        return "spec.machines"
    if field.startswith(_POOL):
        return f"spec{field.removeprefix(_POOL)}"
    return field.replace(_MACHINES, "spec.machines", 1)


def main() -> None:
    """One object from standard input, one answer to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asked = json.load(sys.stdin)
    try:
        check_model(asked["kind"], asked["name"], asked["spec"])
    except ProblemError as problem:
        print(json.dumps({"field": problem.field, "message": problem.message}))
    else:
        print("{}")


if __name__ == "__main__":
    main()
