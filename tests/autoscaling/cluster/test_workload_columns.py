"""Columns of pods and samples that follow the informers equal columns that are made anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_pod
from autoscaling.hpa.builders import RULES, cpu, hpa
from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.cluster.selector_index import SelectorIndex
from stowplan_autoscaling.cluster.workload_columns import WorkloadColumns
from stowplan_autoscaling.hpa.metrics import PodMetric
from stowplan_autoscaling.hpa.plan import HPAPlan
from stowplan_autoscaling.hpa.pod_columns import PodColumns, SampleColumns
from stowplan_autoscaling.hpa.totals import totals_of
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import LabelSelector, PodStatus
from stowplan_scheduler.selectors import LabelQuery

WINDOW = 15 * SECOND
PLAN = HPAPlan(hpa(cpu(50)).spec, "default", 0.1).metrics[0]
QUERIES = {app: LabelQuery.of(LabelSelector(match_labels={"app": app})) for app in ("web", "db")}


def columns_in(world: World) -> WorkloadColumns:
    """The columns of a world that has started."""
    columns = WorkloadColumns(world.informers, SelectorIndex(world.informers))
    world.start()
    return columns


def ready(name: str, app: str = "web", cpu: str = "1") -> ClusterPod:
    """Ready since the start."""
    return replace(
        make_pod(name, labels={"app": app}, requests={"cpu": cpu}),
        status=PodStatus(phase=RUNNING),
        started=START,
        ready=TRUE,
        ready_since=START,
    )


def publish(columns: WorkloadColumns, timestamp: int, **values: int) -> None:
    """Samples by pod name."""
    keys = [f"default/{name}" for name in values]
    columns.publish(keys, timestamp, WINDOW, np.array(list(values.values()), np.int64))


def used(columns: WorkloadColumns, app: str = "web") -> tuple[int, int, int]:
    """Pods with a sample and their usage, and pods without one."""
    number = columns.number("default", QUERIES[app])
    found = totals_of(columns.columns, columns.samples, number, PLAN, RULES, START + 3600 * SECOND)
    return (0, 0, 0) if found is None else (found.counted, found.used, found.missing)


@pytest.mark.parametrize(
    "fields",
    [
        {"started": START + SECOND},
        {"ready": FALSE},
        {"ready_since": START + SECOND},
        {"deleted": START + SECOND},
        {"status": PodStatus(phase=FAILED)},
        {"spec": ready("a", cpu="2").spec},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_each_change_that_counts_is_written_down(fields: dict[str, Any]) -> None:
    """Against columns that are made anew from the changed pod."""
    world = World()
    columns = columns_in(world)
    world.server.create("Pod", ready("a"))
    world.run(1)
    assert used(columns) == (0, 0, 1)
    changed = world.change("a", **fields)
    world.run(2)
    kept, anew = columns.columns, PodColumns("cpu")
    row, fresh = kept.rows["default/a"], anew.put(changed, 0)
    for name in ("state", "ready", "started", "ready_since", "request"):
        assert getattr(kept, name)[row] == getattr(anew, name)[fresh], name


def test_samples_come_and_go() -> None:
    """A publication replaces all samples; pods of no workload are passed over."""
    world = World()
    columns = columns_in(world)
    for name in ("a", "b"):
        world.server.create("Pod", ready(name))
    world.run(1)
    assert used(columns) == (0, 0, 2)
    publish(columns, START + 60 * SECOND, a=100, b=200, other=9)
    assert used(columns) == (2, 300, 0)
    publish(columns, START + 75 * SECOND, a=100)
    assert used(columns) == (1, 100, 1)


def test_a_pod_that_goes_takes_its_sample_along() -> None:
    """The row may be the next pod's, which must not inherit it."""
    world = World()
    columns = columns_in(world)
    world.server.create("Pod", ready("a"))
    world.server.create("Pod", ready("b"))
    world.run(1)
    used(columns)
    publish(columns, START + 60 * SECOND, a=100, b=200)
    row = columns.columns.rows["default/a"]
    world.server.remove("Pod", "default/a")
    world.run(2)
    assert used(columns) == (1, 200, 0)
    # The pod is gone from the API, but the next scrape may still have it.
    publish(columns, START + 75 * SECOND, a=100, b=200)
    assert used(columns) == (1, 200, 0)
    world.server.create("Pod", ready("c"))
    world.run(3)
    assert columns.columns.rows["default/c"] == row
    assert used(columns) == (1, 200, 1)


def test_a_sample_can_be_forgotten() -> None:
    """The metrics API no longer knows the pod, the informers still do."""
    world = World()
    columns = columns_in(world)
    world.server.create("Pod", ready("a"))
    world.run(1)
    used(columns)
    publish(columns, START + 60 * SECOND, a=100)
    assert used(columns) == (1, 100, 0)
    columns.forget_sample("default/a")
    columns.forget_sample("default/unknown")
    assert used(columns) == (0, 0, 1)


def test_a_pod_that_changes_its_labels_changes_its_workload() -> None:
    """Its sample goes with it; without a workload it has no row."""
    world = World()
    columns = columns_in(world)
    for pod in (ready("a"), ready("b"), ready("c", "db")):
        world.server.create("Pod", pod)
    world.run(1)
    assert (used(columns, "web"), used(columns, "db")) == ((0, 0, 2), (0, 0, 1))
    publish(columns, START + 60 * SECOND, a=100, b=200, c=400)
    assert (used(columns, "web"), used(columns, "db")) == ((2, 300, 0), (1, 400, 0))
    world.change("b", metadata=replace(world.pod("b").metadata, labels={"app": "db"}))
    world.run(2)
    assert (used(columns, "web"), used(columns, "db")) == ((1, 100, 0), (2, 600, 0))
    world.change("b", metadata=replace(world.pod("b").metadata, labels={"app": "lost"}))
    world.run(3)
    assert (used(columns, "web"), used(columns, "db")) == ((1, 100, 0), (1, 400, 0))
    assert "default/b" not in columns.columns.rows


def test_workloads_that_share_a_pod_are_no_columns_for_a_sync() -> None:
    """A row belongs to one workload only: both are left to the ordinary way."""
    world = World()
    columns = columns_in(world)
    world.server.create("Pod", ready("a"))
    world.run(1)
    web, db = columns.number("default", QUERIES["web"]), columns.number("default", QUERIES["db"])
    assert columns.sync_asks(web)
    everything = columns.number("default", LabelQuery.of(LabelSelector()))
    assert [columns.sync_asks(number) for number in (web, everything, db)] == [False, False, True]


def test_room_grows_with_the_pods() -> None:
    """More pods than the first capacity of 64, with their samples."""
    world = World()
    columns = columns_in(world)
    columns.number("default", QUERIES["web"])
    names = [f"p{number:03d}" for number in range(150)]
    for name in names:
        world.server.create("Pod", ready(name))
    world.run(1)
    publish(columns, START + 60 * SECOND, **dict.fromkeys(names, 7))
    assert used(columns) == (150, 1050, 0)


STATES = st.tuples(
    st.sampled_from(["web", "web", "db", "none"]),
    st.sampled_from([RUNNING, RUNNING, RUNNING, PENDING, "Failed"]),
    st.sampled_from([TRUE, TRUE, TRUE, FALSE, ""]),
    st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), STATES),
        st.tuples(st.just("remove"), st.integers(0, 4), st.none()),
        st.tuples(st.just("publish"), st.integers(0, 31), st.none()),
    ),
    max_size=20,
)


class Both:
    """The columns under test, and what they should hold: pods as stored, samples by key."""

    def __init__(self) -> None:
        self.world = World()
        self.columns = columns_in(self.world)
        self.samples: dict[str, PodMetric] = {}
        for query in QUERIES.values():
            self.columns.number("default", query)

    def set(self, number: int, state: tuple[str, str, str, bool]) -> None:
        app, phase, condition, deleted = state
        name = f"p{number}"
        held = self.world.server.find("Pod", f"default/{name}")
        if held is None:
            held = self.world.server.create("Pod", ready(name, app, cpu=f"{number + 1}00m"))
        labels = held.metadata.labels if held.metadata.labels["app"] == app else {"app": app}
        self.world.change(
            name,
            metadata=replace(held.metadata, labels=labels),
            status=PodStatus(phase=phase),
            ready=condition,
            deleted=START if deleted else None,
        )
        if app == "none":
            self.samples.pop(f"default/{name}", None)

    def remove(self, number: int) -> None:
        self.world.server.remove("Pod", f"default/p{number}")
        self.samples.pop(f"default/p{number}", None)

    def publish(self, which: int, now: int) -> None:
        names = [f"p{number}" for number in range(5) if which >> number & 1]
        publish(self.columns, now, **{name: 100 + int(name[1]) for name in names})
        rows = self.columns.columns.rows
        self.samples = {
            f"default/{name}": PodMetric(now, WINDOW, 100 + int(name[1])) for name in names if f"default/{name}" in rows
        }

    def check(self) -> None:
        fresh = PodColumns("cpu")
        samples = SampleColumns(len(fresh))
        for pod in self.world.server.all("Pod").values():
            for number, query in enumerate(QUERIES.values()):
                if query.matches(pod.metadata.labels):
                    row = fresh.put(pod, number)
                    if pod.key in self.samples:
                        samples.put(row, self.samples[pod.key])
        columns = self.columns.columns
        assert set(columns.rows) == set(fresh.rows)
        for key, row in columns.rows.items():
            other = fresh.rows[key]
            for name in ("workload", "state", "ready", "started", "ready_since", "request"):
                assert getattr(columns, name)[row] == getattr(fresh, name)[other], (key, name)
            assert self.columns.samples.present[row] == samples.present[other], key
            if samples.present[other]:
                for name in ("timestamp", "window", "value"):
                    assert getattr(self.columns.samples, name)[row] == getattr(samples, name)[other], (key, name)


@settings(max_examples=80)
@given(STEPS)
def test_after_any_history_the_columns_are_those_of_a_fresh_start(steps: list[tuple[str, int, object]]) -> None:
    """Pods come, change state and labels, go and come again under the same name, between publications of samples."""
    both = Both()
    for moment, (what, number, state) in enumerate(steps):
        if what == "set":
            both.set(number, state)  # type: ignore[arg-type]
        elif what == "remove":
            both.remove(number)
        else:
            both.publish(number, START + (60 + moment) * SECOND)
        both.world.run(moment + 1)
        both.check()
