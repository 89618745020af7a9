"""The kind Simulation as a custom resource: the spec of `stowplan simulate -f`, an envelope and a status.

A custom resource has no files beside it, so the fields that name files must be empty.
"""

from __future__ import annotations

from typing import Final, Literal

from stowplan_autoscaling.resources.base import Part, needed, option
from stowplan_autoscaling.resources.simulation import KIND, SimulationSpec

from .envelope import ModelStatus, ObjectMeta

__all__ = ["FILE_CHOICES", "FILE_FIELDS", "KIND", "Simulation"]

FILE_FIELDS: Final = (
    "spec.instanceTypesFile",
    "spec.cluster.files",
    "spec.cluster.snapshot",
    "spec.schedulerProfiles.file",
    "spec.workloads.files",
    "spec.prices.file",
)
"""Fields that only `stowplan simulate -f` can follow."""

FILE_CHOICES: Final = (("spec.demand[].series", "csv"), ("spec.demand[]", "trace"))
"""Mappings of which one choice is made, and the choice that needs a file."""


class Simulation(Part):
    """One cluster in virtual time: what happens to these workloads on these nodes under this demand."""

    api_version: Literal["stowplan.io/v1alpha1"] = needed("stowplan.io/v1alpha1.")
    kind: Literal["Simulation"] = needed("Simulation.")
    metadata: ObjectMeta = needed("Name and other metadata of Kubernetes.")
    spec: SimulationSpec = needed("What is simulated.")
    status: ModelStatus = option({}, "Whether it could be simulated.")
