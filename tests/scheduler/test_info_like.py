"""The quick way from a newer version of a pod to its PodInfo is the way of looking inside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner, shape_signature
from stowplan_scheduler.objects import (
    Affinity,
    ContainerStatus,
    NodeAffinity,
    ObjectMeta,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from support.builders import pod
from support.histories import History, Play, histories, scheduler_of
from support.strategies import pods

NAMES = {"name", "namespace", "uid"}
FIELDS = [
    (part, field.name)
    for part, kind in (("metadata", ObjectMeta), ("spec", PodSpec), ("status", PodStatus))
    for field in fields(kind)
    if field.name not in NAMES
]
RESIZING = (PodCondition(type="PodResizePending", status="True", reason="Deferred"),)


@st.composite
def two_pods(draw: st.DrawFn) -> tuple[Pod, Pod]:
    """Two of one name that differ in anything, statuses included."""
    found = []
    for _ in range(2):
        made = draw(pods("p", on=draw(st.sampled_from([None, "n1"]))))
        status = replace(
            made.status,
            conditions=draw(st.sampled_from([(), RESIZING, (PodCondition(type="Ready", status="True"),)])),
            container_statuses=draw(st.sampled_from([(), (ContainerStatus(name="c0"),)])),
        )
        found.append(replace(made, metadata=replace(made.metadata, namespace="default"), status=status))
    return found[0], found[1]


@given(two_pods(), st.lists(st.sampled_from(FIELDS), max_size=4), st.booleans())
@settings(max_examples=150, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_a_newer_pod_has_the_shape_that_a_look_inside_gives(
    both: tuple[Pod, Pod], changed: list[tuple[str, str]], copied: bool
) -> None:
    """Some fields are taken over from another pod; what is equal but another object is looked into."""
    old, other = both
    new = old
    for part, name in changed:
        value = getattr(getattr(other, part), name)
        new = replace(new, **{part: replace(getattr(new, part), **{name: value})})
    if copied:
        new = replace(new, metadata=replace(new.metadata, labels=dict(new.metadata.labels)))
    interner = PodInterner()
    known = interner.info(old)
    quick, full = interner.info_like(new, known), interner.info(new)
    assert quick.pod is new
    assert quick.shape is full.shape
    assert (quick.key, quick.uid, quick.terminating, quick.priority) == (
        full.key,
        full.uid,
        full.terminating,
        full.priority,
    )


PLAIN = pod("p").build()
RICH = replace(
    pod("p")
    .labels(app="web")
    .owner("ReplicaSet", "rs")
    .req(cpu="1")
    .init(cpu="2")
    .overhead(cpu="1")
    .pod_level(cpu="3")
    .priority(7)
    .image_volume("model")
    .build(),
    status=PodStatus(
        container_statuses=(ContainerStatus(name="c0", allocated_resources={"cpu": "5"}),),
        init_container_statuses=(ContainerStatus(name="i0"),),
        allocated_resources={"cpu": "6"},
        resources=ResourceRequirements(requests={"cpu": "6"}),
        conditions=RESIZING,
    ),
)
RICH = replace(
    RICH,
    spec=replace(
        RICH.spec,
        node_selector={"disk": "ssd"},
        affinity=Affinity(node_affinity=NodeAffinity()),
        tolerations=(Toleration(operator="Exists"),),
        topology_spread_constraints=(TopologySpreadConstraint(max_skew=1, topology_key="zone"),),
        host_network=True,
        host_users=False,
        resource_claims=(PodResourceClaim(name="gpu"),),
    ),
)
IN_THE_SHAPE = {
    "metadata": {"labels", "owner_references"},
    "spec": {
        "containers", "init_containers", "node_selector", "affinity", "tolerations", "topology_spread_constraints",
        "priority", "overhead", "resources", "host_network", "host_users", "volumes", "resource_claims",
    },
    "status": {
        "container_statuses", "init_container_statuses", "allocated_resources", "resources", "conditions",
    },
}  # fmt: skip


@pytest.mark.parametrize(("part", "name"), FIELDS)
def test_every_field_that_makes_a_shape_is_looked_at(part: str, name: str) -> None:
    """One field at a time: a changed one of these makes another shape, and a change of any other keeps it."""
    new = replace(PLAIN, **{part: replace(getattr(PLAIN, part), **{name: getattr(getattr(RICH, part), name)})})
    interner = PodInterner()
    known = interner.info(PLAIN)
    assert interner.info_like(new, known).shape is interner.info(new).shape
    assert (interner.info(new).shape is not known.shape) is (name in IN_THE_SHAPE[part])


@pytest.mark.parametrize(
    "change",
    [
        lambda made: replace(made, spec=replace(made.spec, node_name="n1")),
        lambda made: replace(made, status=replace(made.status, phase="Running", start_time="2000-01-01T00:00:00Z")),
        lambda made: replace(made, metadata=replace(made.metadata, deletion_timestamp="2000-01-01T00:00:00Z")),
        lambda made: replace(
            made, status=replace(made.status, conditions=(PodCondition(type="PodScheduled", status="False"),))
        ),
    ],
)
def test_what_happens_to_every_pod_needs_no_look_inside(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Bound, started, deleted, reported as unschedulable: the property above would also hold without a quick way."""
    interner = PodInterner()
    old = pod("p").labels(app="web").req(cpu="1").build()
    known = interner.info(old)

    def refuse(self: PodInterner, made: Pod) -> PodInfo:
        raise AssertionError("looked inside")

    monkeypatch.setattr(PodInterner, "info", refuse)
    assert interner.info_like(change(old), known).shape is known.shape


@given(two_pods(), st.booleans())
@settings(max_examples=150, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_pods_have_one_shape_just_if_no_rule_can_tell_them_apart(both: tuple[Pod, Pod], shares: bool) -> None:
    """Also those that share containers and labels, as pods of one template do."""
    first, second = both
    if shares:
        meta = replace(second.metadata, labels=first.metadata.labels)
        second = replace(second, metadata=meta, spec=replace(second.spec, containers=first.spec.containers))
    interner = PodInterner()
    known = interner.info(first)
    assert (interner.info(second).shape is known.shape) is (shape_signature(first) == shape_signature(second))


def test_another_pod_of_a_template_needs_no_look_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner is another object that says the same."""
    interner = PodInterner()
    first = pod("a").labels(app="web").owner("ReplicaSet", "web").req(cpu="1").build()
    known = interner.info(first)

    def refuse(made: Pod) -> bytes:
        raise AssertionError("looked inside")

    monkeypatch.setattr("stowplan_scheduler.framework.pod_info.shape_signature", refuse)
    owners = tuple(replace(owner) for owner in first.metadata.owner_references)
    second = replace(first, metadata=replace(first.metadata, name="b", owner_references=owners))
    assert interner.info(second).shape is known.shape
    elsewhere = replace(second, metadata=replace(second.metadata, namespace="elsewhere"))
    with pytest.raises(AssertionError, match="looked inside"):
        interner.info(elsewhere)


@given(histories(steps=40))
@settings(max_examples=15, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_a_scheduler_that_always_looks_inside_does_the_same(history: History) -> None:
    """Whole histories with changes of labels, sizes and bindings, to the last byte."""
    quick = Play(history, scheduler_of(history)).run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PodInterner, "info_like", lambda self, made, known: self.info(made))
        slow = Play(history, scheduler_of(history)).run()
    assert [repr(effect) for effect in quick] == [repr(effect) for effect in slow]
