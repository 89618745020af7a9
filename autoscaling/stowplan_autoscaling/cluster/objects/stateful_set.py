"""StatefulSet (apps/v1, staging/src/k8s.io/api/apps/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.objects import ObjectMeta
from stowplan_scheduler.objects import StatefulSet as SchedulerStatefulSet
from stowplan_scheduler.objects import StatefulSetSpec as SchedulerStatefulSetSpec
from stowplan_scheduler.objects.cluster import IntOrString
from stowplan_scheduler.objects.meta import ApiStruct

from .apps import ROLLING_UPDATE, Condition

ORDERED_READY: Final = "OrderedReady"
PARALLEL: Final = "Parallel"
ON_DELETE: Final = "OnDelete"
RECREATE: Final = "Recreate"


class RollingUpdateStatefulSet(ApiStruct, frozen=True, kw_only=True):
    """spec.updateStrategy.rollingUpdate; the defaults are the API server's."""

    partition: int = 0
    max_unavailable: IntOrString = 1


class StatefulSetUpdateStrategy(ApiStruct, frozen=True, kw_only=True):
    """spec.updateStrategy.

    An absent type is completed to a rolling update with its defaults. A type RollingUpdate that is written out without
    `rolling_update` stays without: pods that are missing while an update runs are then made in another way.
    """

    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class StatefulSetOrdinals(ApiStruct, frozen=True, kw_only=True):
    """spec.ordinals."""

    start: int = 0


class StatefulSetSpec(SchedulerStatefulSetSpec, frozen=True, kw_only=True):
    """spec of a stateful set; the defaults are the API server's. Claims are not made from the claim templates."""

    replicas: int = 1
    pod_management_policy: str = ORDERED_READY
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None
    revision_history_limit: int = 10

    @property
    def first_ordinal(self) -> int:
        """The number of the first replica."""
        return 0 if self.ordinals is None else self.ordinals.start

    @property
    def is_parallel(self) -> bool:
        """Whether pods are made and deleted without waiting for one another."""
        return self.pod_management_policy == PARALLEL

    @property
    def strategy_type(self) -> str:
        """The update strategy, completed."""
        return self.update_strategy.type or ROLLING_UPDATE

    @property
    def rolling_update(self) -> RollingUpdateStatefulSet | None:
        """Its parameters, completed."""
        strategy = self.update_strategy
        if strategy.rolling_update is None and not strategy.type:
            return RollingUpdateStatefulSet()
        return strategy.rolling_update


class StatefulSetStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a stateful set. `current_replicas` and `updated_replicas`: pods of the two revisions."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class StatefulSet(SchedulerStatefulSet, frozen=True, kw_only=True):
    """A stateful set. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
    version: int = 0
    created: int = 0
