"""What holds of `reconcile` whatever people do and whenever the operator dies (I15, I16)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_operator.handlers.observed import Health
from support.situations import BAD, PACK, SPREAD, Cluster, profile

NAMES: Final = ("a", "b", "c", "d")
SPECS: Final[tuple[dict[str, Any], ...]] = (
    PACK,
    SPREAD,
    BAD,
    {"rollout": {"mode": "Paused"}},
    {"rollout": {"mode": "Shadow"}},
    {"extenders": [{"urlPrefix": "http://127.0.0.1"}]},
    {"percentageOfNodesToScore": 50},
)
SCHEDULERS: Final = ("dense", "wide", "wide-too")
GROUPS: Final = ("default", "other")


@st.composite
def profiles(draw: st.DrawFn) -> dict[str, Any]:
    """Some profiles may have the schedulerName of others; names of some are older than those of others."""
    name = draw(st.sampled_from(NAMES))
    spec = {
        "schedulerName": draw(st.sampled_from(SCHEDULERS)),
        "workers": {"group": draw(st.sampled_from(GROUPS))},
        **draw(st.sampled_from(SPECS)),
    }
    created = f"2026-11-30T10:00:0{draw(st.integers(0, 3))}Z"
    return profile(name, spec, uid=f"{name}-{draw(st.integers(0, 1))}", creationTimestamp=created)


ACTIONS: Final = st.one_of(
    st.tuples(st.just("apply"), profiles()),
    st.tuples(st.just("edit"), st.tuples(st.sampled_from(NAMES), st.sampled_from(SPECS))),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("step"), st.none()),
    st.tuples(st.just("workers"), st.none()),
    st.tuples(st.just("later"), st.integers(1, 100)),
    st.tuples(st.just("silence"), st.none()),
)


def act(cluster: Cluster, action: tuple[str, Any]) -> None:
    """One thing that happens."""
    match action:
        case ("apply", made):
            cluster.objects.setdefault(made["metadata"]["name"], deepcopy(made))
        case ("edit", (name, spec)):
            if name in cluster.objects:
                cluster.edit(name, **spec)
        case ("delete", name):
            cluster.objects.pop(name, None)
        case ("step", _):
            cluster.step()
        case ("workers", _):
            cluster.workers_read()
        case ("later", seconds):
            cluster.later(seconds)
        case ("silence", _):
            cluster.step(cluster.reports(Health.SILENT, is_leading=False))


def state(cluster: Cluster) -> Any:
    """All that is there, but for the times and for whoever wrote when."""
    statuses = {
        name: {
            **found.get("status", {}),
            "conditions": [
                {key: value for key, value in each.items() if key != "lastTransitionTime"}
                for each in found.get("status", {}).get("conditions", ())
            ],
        }
        for name, found in cluster.objects.items()
    }
    return cluster.config_map, cluster.files, cluster.running, statuses


@given(st.lists(ACTIONS, max_size=30))
@settings(max_examples=60)
def test_whatever_happened_it_settles_and_then_writes_nothing_more(actions: list[tuple[str, Any]]) -> None:
    cluster = Cluster()
    for action in actions:
        act(cluster, action)
    cluster.settle()
    before, writes = deepcopy(state(cluster)), len(cluster.writes)
    cluster.later(1000)
    cluster.step()
    cluster.step()
    assert state(cluster) == before
    assert len(cluster.writes) == writes


@given(st.lists(ACTIONS, max_size=25))
@settings(max_examples=60)
def test_at_every_moment_one_worker_at_most_acts_for_a_scheduler_name(actions: list[tuple[str, Any]]) -> None:
    """I11, as far as the operator can break it: what it tells the workers to do, and what they still do."""
    cluster = Cluster()
    for action in actions:
        act(cluster, action)
        acting: dict[str, str] = {}
        for report in cluster.reports():
            for running in report.profiles.values():
                if running.mode == "Active":
                    assert acting.setdefault(running.scheduler_name, report.group) == report.group


@given(st.lists(profiles(), max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_in_which_profiles_come_to_be_known_does_not_matter(made: list[dict[str, Any]], rng: Any) -> None:
    unique = list({each["metadata"]["name"]: each for each in made}.values())
    ends: list[Any] = []
    for _ in range(2):
        cluster = Cluster()
        for each in unique:
            cluster.objects[each["metadata"]["name"]] = deepcopy(each)
            cluster.settle()
        ends.append(_without_past(cluster, unique))
        rng.shuffle(unique)
    assert ends[0] == ends[1]


def _without_past(cluster: Cluster, made: list[dict[str, Any]]) -> Any:
    """The state, without the order of what is in it."""
    config_map, files, running, statuses = state(cluster)
    owners = {each["metadata"]["name"] for each in made}
    # A profile that ran until an older one with its schedulerName turned up is remembered; one that never ran is not.
    kept = {name: text for name, text in config_map.items() if _runs(statuses[name])}
    assert set(config_map) <= owners
    return kept, files, running, statuses


def _runs(status: dict[str, Any]) -> bool:
    return "lastGood" in status


@given(st.lists(ACTIONS, max_size=15))
@settings(max_examples=60)
def test_a_crash_between_any_two_writes_ends_in_the_same_state_after_as_many_writes(
    actions: list[tuple[str, Any]],
) -> None:
    """I15: every boundary between two writes is tried."""
    cluster = Cluster()
    for action in actions:
        act(cluster, action)
    undisturbed = deepcopy(cluster)
    undisturbed.writes.clear()
    undisturbed.step()
    expected, count = state(undisturbed), len(undisturbed.writes)
    for crash in range(count):
        crashed = deepcopy(cluster)
        crashed.writes.clear()
        writes = crashed.carry_out(crashed.desired())
        for _ in range(crash):
            next(writes)
        # The operator is gone; the next one starts from what is there.
        crashed.step()
        assert state(crashed) == expected
        assert crashed.writes == undisturbed.writes


@given(st.sampled_from([PACK, SPREAD, {"percentageOfNodesToScore": 3}]), st.lists(st.sampled_from(SPECS), max_size=8))
@settings(max_examples=60)
def test_what_is_refused_leaves_the_last_good_specification_running(
    first: dict[str, Any], edits: list[dict[str, Any]]
) -> None:
    """I16: the file never holds anything but the last specification that was good."""
    cluster = Cluster(profile("dense", first))
    cluster.settle()
    good = 1
    for spec in edits:
        cluster.edit("dense", **spec)
        cluster.settle()
        status = cluster.status("dense")
        generation = cluster.objects["dense"]["metadata"]["generation"]
        if cluster.condition("dense", "Accepted")["status"] == "True":
            good = generation
        assert status["lastGood"]["generation"] == good
        assert status["observedGeneration"] == generation
        assert status["workers"][0]["generation"] == good
        assert cluster.condition("dense", "Programmed")["observedGeneration"] == good
        assert (cluster.condition("dense", "Degraded")["status"] == "True") == (good != generation)
