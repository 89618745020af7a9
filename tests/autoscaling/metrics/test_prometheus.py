"""Scrapes, look-back, staleness."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.metrics import Exposed, Prometheus, PrometheusConfig, ScrapeFaults
from stowplan_autoscaling.streams import Streams

WEB = {"namespace": "default", "pod": "web-1"}


def clock(now: int) -> Iterable[Exposed]:
    """Exposes the time in seconds."""
    return [Exposed("clock", now / SECOND)]


class World:
    def __init__(self, seed: int = 1, **config: object) -> None:
        settings = {"interval": 30 * SECOND, **config}
        self.prometheus = Prometheus(PrometheusConfig(**settings), streams=Streams(seed))  # type: ignore[arg-type]

    def at(self, seconds: float, name: str = "clock") -> list[float]:
        now = int(seconds * SECOND)
        self.prometheus.advance(now)
        return [sample.value for sample in self.prometheus.instant(name, {}, now)]


def test_a_value_is_that_of_the_last_scrape() -> None:
    """Scraped at 10, 40, 70 s."""
    world = World()
    world.prometheus.add_target("web-1", WEB, clock, 0, phase=10 * SECOND)
    assert [world.at(t) for t in (9, 10, 39, 40, 69)] == [[], [10], [10], [40], [40]]


def test_a_targets_phase_depends_on_its_name_only() -> None:
    """Found at 0 or at 100 s, it is scraped at the same moments; another target at others."""
    one, other, third = World(), World(), World()
    one.prometheus.add_target("a", WEB, clock, 0)
    other.prometheus.add_target("a", WEB, clock, 100 * SECOND)
    third.prometheus.add_target("b", WEB, clock, 0)
    assert one.at(200) == other.at(200)
    assert one.at(200) != third.at(200)


def test_labels_narrow_down() -> None:
    """Both the target's labels and a line's own."""
    world = World()

    def expose(now: int) -> Iterable[Exposed]:
        return [Exposed("requests", 1, (("code", "200"),)), Exposed("requests", 2, (("code", "500"),))]

    world.prometheus.add_target("a", {"pod": "a"}, expose, 0, phase=0)
    world.prometheus.add_target("b", {"pod": "b"}, expose, 0, phase=0)
    world.prometheus.advance(SECOND)
    found = world.prometheus.instant("requests", {"pod": "b", "code": "500"}, SECOND)
    assert [(sample.labels, sample.value) for sample in found] == [({"pod": "b", "code": "500"}, 2)]
    assert world.prometheus.instant("requests", {"pod": "c"}, SECOND) == []


def test_without_markers_a_series_stays_for_the_look_back() -> None:
    """The exporter stops exposing it after 40 s: at 339 s the sample of 40 s is 299 s old, at 340 s it is too old."""
    world = World(markers=False)
    world.prometheus.add_target("a", WEB, lambda now: clock(now) if now <= 40 * SECOND else (), 0, phase=10 * SECOND)
    assert [world.at(t) for t in (70, 339, 340)] == [[40], [40], []]


def test_with_markers_a_series_that_is_not_exposed_is_gone_at_once() -> None:
    """At 70 s the scrape does not find it."""
    world = World()
    world.prometheus.add_target("a", WEB, lambda now: clock(now) if now <= 40 * SECOND else (), 0, phase=10 * SECOND)
    assert [world.at(t) for t in (69, 70)] == [[40], []]


def test_the_series_of_a_dropped_target_go_two_intervals_later() -> None:
    """Last scrape at 40 s, dropped at 50 s: the marker of 70 s is written at 70 + 33 = 103 s."""
    world = World()
    world.prometheus.add_target("a", WEB, clock, 0, phase=10 * SECOND)
    world.at(50)
    world.prometheus.remove_target("a")
    assert [world.at(t) for t in (102.9, 103)] == [[40], []]


def test_a_target_that_comes_back_in_time_keeps_its_series() -> None:
    """The marker is older than the new samples, so it is not written."""
    world = World()
    world.prometheus.add_target("a", WEB, clock, 0, phase=10 * SECOND)
    world.at(50)
    world.prometheus.remove_target("a")
    world.prometheus.add_target("a", WEB, clock, 60 * SECOND, phase=20 * SECOND)
    assert [world.at(t) for t in (60, 80, 103, 110)] == [[40], [80], [80], [110]]


def test_series_of_dropped_targets_are_forgotten() -> None:
    """Pods come and go; what is past retention takes no room."""
    world = World(retention=10 * MINUTE)
    for number in range(20):
        world.prometheus.add_target(f"pod-{number}", {"pod": f"pod-{number}"}, clock, number * MINUTE)
        world.prometheus.advance((number + 1) * MINUTE)
        world.prometheus.remove_target(f"pod-{number}")
    world.prometheus.advance(60 * MINUTE)
    assert list(world.prometheus.matching("clock", {})) == []
    assert list(world.prometheus.matching("clock", {"pod": "pod-3"})) == []
    assert world.prometheus.next_event() is None


def test_a_rate_rests_on_the_samples_of_its_window() -> None:
    """The clock grows by 1 per second; after one scrape there is no rate."""
    world = World()
    world.prometheus.add_target("a", WEB, clock, 0, phase=10 * SECOND)
    world.prometheus.advance(39 * SECOND)
    assert world.prometheus.rate("clock", WEB, 2 * MINUTE, 39 * SECOND) == []
    world.prometheus.advance(130 * SECOND)
    (sample,) = world.prometheus.rate("clock", WEB, 2 * MINUTE, 130 * SECOND)
    assert sample.value == pytest.approx(1.0)
    assert sample.time == 130 * SECOND


def test_a_failed_scrape_marks_everything_stale() -> None:
    """All scrapes fail from the start: nothing is ever seen."""
    world = World(faults=ScrapeFaults(missing=1.0))
    world.prometheus.add_target("a", WEB, clock, 0, phase=10 * SECOND)
    assert world.at(300) == []


def test_about_the_given_part_of_scrapes_fails() -> None:
    """A third of 300 scrapes, without markers: the age of the newest sample shows the gaps."""
    world = World(faults=ScrapeFaults(missing=1 / 3), markers=False)
    world.prometheus.add_target("a", WEB, clock, 0, phase=0)
    fresh = sum(world.at(t) == [t] for t in range(0, 9000, 30))
    assert 170 <= fresh <= 230


def test_late_samples_show_later_and_keep_their_time() -> None:
    """Scraped at 10 s, seen at 15 s."""
    world = World(faults=ScrapeFaults(late=1.0, late_by=5 * SECOND))
    world.prometheus.add_target("a", WEB, clock, 0, phase=10 * SECOND)
    assert [world.at(t) for t in (14, 15, 44, 45)] == [[], [10], [10], [40]]


@pytest.mark.parametrize("faults", [{"missing": 1.5}, {"late": -0.1}, {"late_by": -1}])
def test_impossible_faults_are_refused(faults: dict[str, float]) -> None:
    """Parts are between 0 and 1, delays not negative."""
    with pytest.raises(ValueError, match=next(iter(faults))):
        ScrapeFaults(**faults)  # type: ignore[arg-type]
