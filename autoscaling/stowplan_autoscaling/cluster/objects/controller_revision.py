"""ControllerRevision (apps/v1): the pod template that a StatefulSet or DaemonSet had, under a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan_scheduler.objects import ObjectMeta, PodTemplateSpec
from stowplan_scheduler.objects.meta import ApiStruct

KIND: Final = "ControllerRevision"


class ControllerRevision(ApiStruct, frozen=True, kw_only=True):
    """One state of a pod template. Upstream keeps a patch as text; here it is the template itself."""

    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()
    revision: int = 0
    version: int = 0
    created: int = 0


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """The lowest revision first; of equal ones the older first, then by name (history.SortControllerRevisions)."""
    return sorted(revisions, key=lambda each: (each.revision, each.created, each.metadata.name))
