"""Tests of the five plugins for volumes and devices: what upstream does for pods without any, and refusals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.interface import FilterPlugin
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import (
    ImageVolumeSource,
    OpaqueSource,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodResourceClaim,
    Volume,
)
from stowplan_scheduler.plugins.volumes_and_devices import (
    RESOURCE_CLAIMS,
    VOLUMES,
    DynamicResources,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
    unsupported_feature,
)
from support.builders import node, pod
from support.tables import World, info_of

CLAIM = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
EPHEMERAL = Volume(name="v", ephemeral=OpaqueSource())
GCE = Volume(name="v", gce_persistent_disk=OpaqueSource())
ISCSI = Volume(name="v", iscsi=OpaqueSource())
AZURE_FILE = Volume(name="v", azure_file=OpaqueSource())
INLINE_CSI = Volume(name="v", csi=OpaqueSource())
IMAGE = Volume(name="v", image=ImageVolumeSource(reference="app"))
EMPTY_DIRECTORY = Volume(name="v")


def using(*volumes: Volume) -> Pod:
    """A pod with these volumes."""
    plain = pod("p").build()
    return replace(plain, spec=replace(plain.spec, volumes=volumes))


def claiming() -> Pod:
    """A pod with a resource claim."""
    plain = pod("p").build()
    return replace(plain, spec=replace(plain.spec, resource_claims=(PodResourceClaim(name="c"),)))


@pytest.mark.parametrize(
    ("volume", "refusing"),
    [
        (CLAIM, {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}),
        (EPHEMERAL, {"NodeVolumeLimits", "VolumeBinding"}),
        (GCE, {"VolumeRestrictions", "NodeVolumeLimits"}),
        (ISCSI, {"VolumeRestrictions"}),
        (AZURE_FILE, {"NodeVolumeLimits"}),
        (INLINE_CSI, set()),
        (IMAGE, set()),
        (EMPTY_DIRECTORY, set()),
    ],
)
def test_each_plugin_refuses_the_volumes_that_upstream_has_it_look_at(volume: Volume, refusing: set[str]) -> None:
    """All others are Skip; every refused pod is named unsupported, so that nobody has to ask the plugins."""
    world = World([node("n").build()])
    plugins: list[FilterPlugin] = [VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone()]
    results = {p.name: p.pre_filter(info_of(using(volume)), world.cluster).status for p in plugins}
    assert {name for name, status in results.items() if not status.is_skip} == refusing
    assert all(results[name].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for name in refusing)
    assert unsupported_feature(using(volume)) == (VOLUMES if refusing else None)


def test_refusal_says_that_stowplan_does_not_decide() -> None:
    """The reader must not take it for a verdict of the real scheduler."""
    status = VolumeBinding().pre_filter(info_of(using(CLAIM)), World().cluster).status
    assert status.message == "the pod uses volumes, which Stowplan does not decide yet"


def test_volume_binding_takes_part_in_scoring_with_zero() -> None:
    """v1.37 does not skip PreScore, which is visible where scores are listed."""
    world = World([node("a").build(), node("b").build()])
    assert world.raw_scores(VolumeBinding(), pod("p").build()) == [0, 0]
    assert VolumeBinding.normalizes is False


def test_dynamic_resources_scores_zero_and_stays_zero_when_normalized() -> None:
    """The default normalisation of nothing but 0 is 0, not 100: it is not reversed."""
    world = World([node("a").build(), node("b").build()])
    assert world.scores(DynamicResources(), pod("p").build()) == [0, 0]


def test_resource_claims_are_refused_in_the_cycle_and_not_at_the_door() -> None:
    """A pod held back before the queue would wait without anyone being told why."""
    info = info_of(claiming())
    assert DynamicResources().pre_enqueue(info).is_success
    status = DynamicResources().pre_filter(info, World().cluster).status
    assert status.message == "the pod uses resource claims, which Stowplan does not decide yet"
    assert unsupported_feature(claiming()) == RESOURCE_CLAIMS


def test_nothing_is_reserved_or_prepared() -> None:
    """Pods that need something come no further than PreFilter or Filter."""
    info, state = info_of(pod("p").build()), CycleState()
    for plugin in (VolumeBinding(), DynamicResources()):
        assert plugin.reserve(state, info, "n").is_success
        assert plugin.pre_bind(state, info, "n").is_skip
        plugin.unreserve(state, info, "n")


def test_refused_volumes_are_not_tried_again_and_again() -> None:
    """Volumes of a pod never change."""
    assert [p().events() for p in (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)] == [()] * 4
