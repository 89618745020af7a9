"""Tests of NodeDeclaredFeatures."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan_scheduler.framework.cluster_event import Action, Hint
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import Container, Pod, RestartRule, VolumeMount
from stowplan_scheduler.plugins.node_declared_features import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
    VOLUME_BIND_MOUNT_OPTIONS,
    NodeDeclaredFeatures,
    required_features,
)
from support.builders import node, pod
from support.tables import World, ask, info_of

PLAIN = pod("p").build()
RESTARTING = Container(name="c", restart_policy_rules=(RestartRule(action="RestartAllContainers"),))
MOUNTING = Container(name="c", volume_mounts=(VolumeMount(bind_mount_options=("noexec",)),))


def with_spec(**fields: object) -> Pod:
    """The plain pod with fields of its spec replaced."""
    return replace(PLAIN, spec=replace(PLAIN.spec, **fields))


@pytest.mark.parametrize(
    ("wanting", "features"),
    [
        (PLAIN, set()),
        (with_spec(containers=(RESTARTING,)), {RESTART_ALL_CONTAINERS}),
        (with_spec(init_containers=(RESTARTING,)), {RESTART_ALL_CONTAINERS}),
        (with_spec(containers=(replace(RESTARTING, restart_policy_rules=(RestartRule(action="Restart"),)),)), set()),
        (with_spec(host_network=True, host_users=False), {USER_NAMESPACES_HOST_NETWORK}),
        (with_spec(host_network=True), set()),
        (with_spec(host_users=False), set()),
        (with_spec(containers=(MOUNTING,)), {VOLUME_BIND_MOUNT_OPTIONS}),
        (with_spec(containers=(RESTARTING, MOUNTING)), {RESTART_ALL_CONTAINERS, VOLUME_BIND_MOUNT_OPTIONS}),
    ],
)
def test_required_features(wanting: Pod, features: set[str]) -> None:
    """Three of upstream's declared features matter to scheduling."""
    assert required_features(wanting) == features


def test_node_must_declare_all_of_them() -> None:
    """More than needed does no harm, one too few refuses."""
    world = World(
        [
            node("none").build(),
            node("one").features(RESTART_ALL_CONTAINERS).build(),
            node("both").features(RESTART_ALL_CONTAINERS, "Unrelated", VOLUME_BIND_MOUNT_OPTIONS).build(),
        ]
    )
    verdicts = world.verdicts(NodeDeclaredFeatures(), with_spec(containers=(RESTARTING, MOUNTING)))
    refused = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert [status.code for status in verdicts] == [refused, refused, Code.SUCCESS]
    assert verdicts[0].message == "node(s) didn't match Pod's required features"


def test_pod_without_requirements_skips() -> None:
    """Nearly every pod."""
    world = World([node("n").build()])
    assert NodeDeclaredFeatures().pre_filter(world.info(PLAIN), world.cluster).status.is_skip


def test_node_helps_if_its_list_of_features_is_another_one() -> None:
    """Upstream compares the lists and does not ask whether the pod needs what changed."""
    on_node, _ = NodeDeclaredFeatures().events()
    info = info_of(with_spec(containers=(RESTARTING,)))
    bare, declaring = node("n").build(), node("n").features("Unrelated").build()
    assert ask(on_node.hint, info, None, bare) is Hint.QUEUE
    assert ask(on_node.hint, info, bare, declaring) is Hint.QUEUE
    assert ask(on_node.hint, info, declaring, declaring) is Hint.SKIP


def test_own_update_helps_if_the_pod_needs_other_features() -> None:
    """Registered for every kind of update of the pod itself."""
    _, on_update = NodeDeclaredFeatures().events()
    assert on_update.event.action == Action.UPDATE
    needing = with_spec(containers=(RESTARTING,))
    assert ask(on_update.hint, info_of(needing), needing, PLAIN) is Hint.QUEUE
    assert ask(on_update.hint, info_of(needing), needing, needing) is Hint.SKIP
