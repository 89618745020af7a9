"""Active, Paused and Shadow, and changes between them while pods wait and binds are under way."""

from __future__ import annotations

import pytest

from stowplan_operator.worker.requests import BindPod, PatchPod
from stowplan_operator.worker.settings import MachineSettings, Mode, ProfileSettings
from stowplan_scheduler.config import ConfigurationError, load_configuration
from support.machines import CONFIG, SECOND, Desk, of, profile, settings, small, the, waiting

BOTH = (profile("stowplan"), profile("dense"))


def modes(stowplan: Mode = Mode.ACTIVE, dense: Mode = Mode.ACTIVE) -> MachineSettings:
    return settings(profile("stowplan", stowplan), profile("dense", dense))


def test_pods_of_a_paused_profile_stay_and_those_of_the_others_go_on() -> None:
    desk = Desk(small(), waiting("p1", scheduler="dense"), waiting("p2"), given=modes(dense=Mode.PAUSED))
    assert the(BindPod, desk.settle(600 * SECOND)).key == "default/p2"
    assert desk.machine.pending()["held"] == 1
    assert desk.machine.pending_of() == {"stowplan": 1, "dense": 1}
    assert desk.story("p1") == ["held"]


def test_a_resumed_profile_takes_up_its_pods_by_priority() -> None:
    pods = [waiting(f"p{i}", scheduler="dense", priority=i) for i in range(3)]
    desk = Desk(small(), *pods, given=modes(dense=Mode.PAUSED))
    assert desk.tick() == []
    desk.machine.reconfigure(modes(), desk.now)
    assert [bind.key for bind in of(BindPod, desk.tick())] == ["default/p2", "default/p1"]
    assert desk.machine.pending()["held"] == 0


def test_pausing_takes_waiting_pods_out_of_the_queue_and_lets_binds_under_way_end() -> None:
    desk = Desk(small(), *(waiting(f"p{i}", scheduler="dense") for i in range(3)), given=modes())
    requests = desk.tick()
    sent = of(BindPod, requests)
    assert len(sent) == 2
    desk.answer(the(PatchPod, requests), 200)
    desk.machine.reconfigure(modes(dense=Mode.PAUSED), desk.now)
    assert desk.machine.pending()["held"] == 3, "none of them has a node yet"
    desk.answer(sent[0])
    desk.show_bound(sent[0])
    desk.answer(sent[1], 422, "no")
    desk.lose(desk.objects["Pod", "default/p0"])
    assert desk.settle(600 * SECOND) == [], "not even the one whose bind failed is tried again"
    assert desk.machine.pending()["held"] == 2
    desk.machine.reconfigure(modes(), desk.now)
    assert len(of(BindPod, desk.settle(desk.now + 60 * SECOND))) == 2


def test_with_every_profile_paused_nothing_is_tried() -> None:
    desk = Desk(small(), waiting("p1"), waiting("p2", scheduler="dense"), given=modes(Mode.PAUSED, Mode.PAUSED))
    assert desk.settle(600 * SECOND) == []
    assert desk.machine.pending()["held"] == 2
    assert desk.machine.pending()["active"] == 0
    desk.machine.reconfigure(modes(Mode.PAUSED), desk.now)
    assert the(BindPod, desk.tick()).key == "default/p2"
    desk.machine.reconfigure(modes(Mode.PAUSED, Mode.PAUSED), desk.now)
    assert desk.settle(desk.now + 600 * SECOND) == []


def test_pods_of_a_paused_profile_that_are_deleted_or_bound_by_hand_are_forgotten() -> None:
    desk = Desk(
        small(),
        *(waiting(f"p{i}", scheduler="dense") for i in range(3)),
        given=modes(dense=Mode.PAUSED),
    )
    desk.lose(waiting("p0"))
    desk.show_bound(BindPod(id=0, key="default/p1", uid="", node="n1", epoch=0))
    desk.machine.reconfigure(modes(), desk.now)
    assert [bind.key for bind in of(BindPod, desk.settle(60 * SECOND))] == ["default/p2"]


def test_another_way_of_scoring_applies_to_the_next_pod_and_keeps_queue_and_binds() -> None:
    """LeastAllocated prefers the node of 4 cores, MostAllocated that of one: 40 % of it would be taken, not 20 %."""
    desk = Desk(small("small"), small("large", cpu="4"), waiting("p0"), waiting("p1", cpu="9"))
    first = the(BindPod, desk.tick())
    assert first.node == "large"
    desk.machine.reconfigure(settings(strategy="MostAllocated"), desk.now)
    assert desk.machine.binds_under_way == 1
    assert desk.machine.pending()["unschedulable"] + desk.machine.pending()["backoff"] == 1
    desk.see(waiting("p2"))
    assert the(BindPod, desk.settle(60 * SECOND)).node == "small"
    desk.answer(first)
    assert "bound" in desk.story("p0")


def test_a_configuration_that_is_refused_changes_nothing() -> None:
    desk = Desk(small(), waiting())
    before = desk.machine.settings
    bad = settings()
    extenders = load_configuration(
        {
            **CONFIG,
            "profiles": [{"schedulerName": "stowplan"}],
            "extenders": [{"urlPrefix": "http://x", "filterVerb": "f"}],
        }
    )
    with pytest.raises(ConfigurationError, match="extenders"):
        desk.machine.reconfigure(MachineSettings(configuration=extenders, profiles=bad.profiles), desk.now)
    assert desk.machine.settings is before
    assert len(of(BindPod, desk.tick())) == 1


def test_a_profile_that_is_added_takes_the_pods_that_wait_for_it() -> None:
    desk = Desk(small(), waiting("p1", scheduler="dense"))
    assert desk.tick() == []
    assert desk.machine.pending_of() == {"stowplan": 0}
    desk.machine.reconfigure(settings(*BOTH), desk.now)
    assert the(BindPod, desk.tick()).key == "default/p1"


def test_a_profile_that_is_removed_leaves_its_pods_alone() -> None:
    desk = Desk(small(cpu="500m"), waiting("p1", scheduler="dense"), waiting("p2", scheduler="dense"), given=modes())
    bind = the(BindPod, desk.tick())
    desk.machine.reconfigure(settings(), desk.now)
    desk.answer(bind, 422, "no")
    assert of(BindPod, desk.settle(600 * SECOND)) == []
    assert desk.machine.scheduler.cache.get_node("n1").pods == []  # type: ignore[union-attr]


def test_the_limit_of_binds_can_be_changed() -> None:
    desk = Desk(small(cpu="8"), *(waiting(f"p{i}") for i in range(6)), given=settings(max_binds=1))
    assert len(of(BindPod, desk.tick())) == 1
    assert len(of(BindPod, desk.machine.reconfigure(settings(max_binds=3), desk.now))) == 1
    assert len(of(BindPod, desk.tick())) == 1


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: MachineSettings(configuration=settings().configuration, profiles=()), r"profiles: \[\] must be"),
        (lambda: settings(max_binds=0), "max_binds_in_flight: 0: must be at least 1"),
        (
            lambda: settings(profile("a"), profile("b", Mode.SHADOW, shadow_of="a")),
            "shadow_of: 'a' must be a scheduler that does not run here",
        ),
    ],
)
def test_settings_that_contradict_themselves_are_refused(wrong: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wrong()  # type: ignore[operator]


def test_a_plain_configuration_has_all_profiles_active() -> None:
    made = MachineSettings.all_active(settings(*BOTH).configuration)
    assert made.active == {"stowplan", "dense"}
    assert made.profiles == tuple(ProfileSettings(scheduler_name=name) for name in ("stowplan", "dense"))
