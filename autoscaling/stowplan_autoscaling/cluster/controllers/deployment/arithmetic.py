"""Sizes of a rollout: surge, unavailability, and shares of a scaling.

Follows pkg/controller/deployment/util/deployment_util.go of Kubernetes v1.37.2. Int32 arithmetic is not wrapped:
replica counts that large are refused before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from stowplan_autoscaling.cluster.int_or_percent import scaled_value
from stowplan_autoscaling.cluster.objects.apps import ROLLING_UPDATE, Deployment, ReplicaSet

DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
_MAX_INT32: Final = 2**31 - 1


def is_rolling(deployment: Deployment) -> bool:
    """Whether pods are replaced step by step."""
    return deployment.spec.strategy.type == ROLLING_UPDATE


def fenceposts(deployment: Deployment) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers; not both 0."""
    limits = deployment.spec.strategy.rolling_update
    surge = scaled_value(limits.max_surge, deployment.spec.replicas, round_up=True)
    unavailable = scaled_value(limits.max_unavailable, deployment.spec.replicas, round_up=False)
    return surge, 1 if surge == 0 and unavailable == 0 else unavailable


def max_surge(deployment: Deployment) -> int:
    """Pods above the number of replicas."""
    return fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """Pods below it."""
    if not is_rolling(deployment) or deployment.spec.replicas == 0:
        return 0
    return min(fenceposts(deployment)[1], deployment.spec.replicas)


def has_deadline(deployment: Deployment) -> bool:
    """Whether progress is watched."""
    return deployment.spec.progress_deadline_seconds not in {None, _MAX_INT32}


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    """Pods wanted."""
    return sum([each.spec.replicas for each in replica_sets])


def available(replica_sets: Iterable[ReplicaSet]) -> int:
    """Pods available."""
    return sum([each.status.available_replicas for each in replica_sets])


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Those that are to have pods."""
    return [each for each in replica_sets if each.spec.replicas > 0]


def new_size(deployment: Deployment, replica_sets: Iterable[ReplicaSet], current: int) -> int:
    """To how many replicas the new ReplicaSet may grow from `current`."""
    replicas = deployment.spec.replicas
    if not is_rolling(deployment):
        return replicas
    surge = scaled_value(deployment.spec.strategy.rolling_update.max_surge, replicas, round_up=True)
    room = replicas + surge - total(replica_sets)
    return current if room <= 0 else current + min(room, replicas - current)


def annotation(replica_set: ReplicaSet, name: str) -> int | None:
    """A replica count that is kept in an annotation; None where it is absent or no such number."""
    text = replica_set.metadata.annotations.get(name)
    if text is None or not text.isascii() or not text.isdigit():
        return None
    value = int(text)
    return value if value <= _MAX_INT32 else None


def share(replica_set: ReplicaSet, deployment: Deployment, to_add: int, added: int) -> int:
    """How many of `to_add` replicas (negative: to remove) this ReplicaSet gets; `added` are given away already."""
    size = replica_set.spec.replicas
    if size == 0 or to_add in {0, added}:
        return 0
    fraction = _fraction(replica_set, deployment)
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def _fraction(replica_set: ReplicaSet, deployment: Deployment) -> int:
    size = replica_set.spec.replicas
    if deployment.spec.replicas == 0:
        return -size
    before = annotation(replica_set, MAX_REPLICAS) or deployment.status.replicas
    if before == 0:
        return 0
    scaled = float(size * (deployment.spec.replicas + max_surge(deployment))) / float(before)
    return _round_half_away(scaled) - size


def _round_half_away(value: float) -> int:
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)
