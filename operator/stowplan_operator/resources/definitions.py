"""The CustomResourceDefinitions, made from the models, the rules and the table of kinds below.

python -m stowplan_operator.resources crds crds/      # writes the files: `make crds`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import BaseModel

from . import node_pool, scheduler_profile, simulation
from .cel_rules import LIST_KEYS, RULES
from .envelope import CATEGORY, GROUP, VERSION
from .structural import structural_schema

_HEADER: Final = "# Written by `make crds` from the models in operator/stowplan_operator/resources: do not edit.\n"
_LABELS: Final = {"app.kubernetes.io/name": "stowplan", "app.kubernetes.io/part-of": "stowplan"}
_WIDE: Final = 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column of kubectl get."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""

    def as_schema(self) -> dict[str, Any]:
        """As the definition has it."""
        found: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            found["description"] = self.description
        return {**found, "priority": _WIDE} if self.wide else found


def _condition(type: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{type}")].{field}'


_AGE: Final = Column("AGE", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """A kind and what `kubectl` needs to know about it.

    `defaults`: whether the server fills in what is left out.
    """

    kind: str
    plural: str
    short: str
    model: type[BaseModel]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    defaults: bool = True

    @property
    def name(self) -> str:
        """Name of the definition."""
        return f"{self.plural}.{GROUP}"

    @property
    def file(self) -> str:
        """Name of its file in crds/."""
        return f"{self.name}.yaml"


KINDS: Final = (
    CustomKind(
        kind=scheduler_profile.KIND,
        plural="schedulerprofiles",
        short="sprof",
        model=scheduler_profile.SchedulerProfile,
        selectable=(".spec.schedulerName", ".spec.workers.group"),
        columns=(
            Column("SCHEDULER", ".spec.schedulerName"),
            Column("MODE", ".spec.rollout.mode"),
            Column("READY", _condition("Ready")),
            Column("PENDING", ".status.pending", "integer"),
            Column("UTIL%", ".status.utilizationPercent", "integer"),
            _AGE,
            Column("REASON", _condition("Ready", "reason"), wide=True),
            Column("STRATEGY", ".spec.scoringStrategy.type", wide=True),
            Column("GROUP", ".spec.workers.group", wide=True),
            Column("WORKERS", ".spec.workers.replicas", "integer", wide=True),
            Column("LEADER", ".status.workers[?(@.leading==true)].name", wide=True),
            Column("HASH", ".status.appliedHash", wide=True),
        ),
    ),
    CustomKind(
        kind=node_pool.KIND,
        plural="nodepools",
        short="spnp",
        model=node_pool.NodePool,
        columns=(
            Column("MACHINE", ".spec.machines[0].name"),
            Column("MIN", ".spec.min", "integer"),
            Column("MAX", ".spec.max", "integer"),
            Column("READY", _condition("Ready")),
            _AGE,
            Column("REASON", _condition("Ready", "reason"), wide=True),
            Column("CAPACITY", ".spec.capacityTypes", wide=True),
            Column("PRICE", ".spec.machines[0].price", wide=True, description="Per hour, of the first machine."),
            Column("WEIGHT", ".spec.weight", "integer", wide=True),
        ),
    ),
    CustomKind(
        kind=simulation.KIND,
        plural="simulations",
        short="sim",
        model=simulation.Simulation,
        # Candidates are merge patches of spec: filled-in defaults would contradict them (supply has one choice).
        defaults=False,
        columns=(
            Column("DURATION", ".spec.duration"),
            Column("READY", _condition("Ready")),
            _AGE,
            Column("REASON", _condition("Ready", "reason"), wide=True),
            Column("BASELINE", ".spec.baseline", wide=True),
            Column("SEEDS", ".spec.seeds", "integer", wide=True),
        ),
    ),
)


def definition(kind: CustomKind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.as_schema() for column in kind.columns],
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    version["schema"] = {
        "openAPIV3Schema": structural_schema(
            kind.model, rules=RULES[kind.kind], list_keys=LIST_KEYS[kind.kind], defaults=kind.defaults
        )
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "labels": dict(_LABELS)},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Without anchors: readers of YAML in other languages show them as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def definition_text(kind: CustomKind) -> str:
    """The file in crds/."""
    text: str = yaml.dump(definition(kind), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return _HEADER + text
