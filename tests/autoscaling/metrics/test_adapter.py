"""Custom and external metrics from Prometheus: relist, values, texts, age."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from stowplan_autoscaling.hpa.metrics import DEFAULT_WINDOW, MetricsError, PodMetric
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference
from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.metrics import (
    AdapterConfig,
    Exposed,
    Outage,
    PodIndex,
    Prometheus,
    PrometheusAdapter,
    PrometheusConfig,
    Rule,
)
from stowplan_autoscaling.metrics.adapter import milli
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import LabelQuery
from support.builders import pod

WEB = LabelQuery.of_map({"app": "web"})
INGRESS = CrossVersionObjectReference(kind="Ingress", name="shop", api_version="networking.k8s.io/v1")

RULES = (
    Rule.of_pods("in_flight", "in_flight"),
    Rule.of_pods("requests_per_second", "requests_total", window=2 * MINUTE),
    Rule(metric="hits", series="hits", kind="Ingress", resource="ingresses.networking.k8s.io", label="ingress"),
    Rule(metric="queue_age", series="queue_age", aggregate="max"),
    Rule(metric="queue_age_each", series="queue_age", aggregate="none"),
    Rule(metric="queue_age_guarded", series="queue_age", when_stale="error", fresh_for=MINUTE),
    Rule(metric="queue_age_pushed", series="queue_age", when_stale="keep"),
)


class World:
    """Prometheus scrapes at 10, 40, 70, ... s; the adapter lists at 0, 10, 20, ... minutes."""

    def __init__(self, *, markers: bool = True, **config: Any) -> None:
        self.prometheus = Prometheus(PrometheusConfig(interval=30 * SECOND, markers=markers), streams=Streams(1))
        self.index = PodIndex()
        self.adapter = PrometheusAdapter(
            self.prometheus, RULES, index=self.index, start=0, config=AdapterConfig(**config)
        )
        self.exposed: dict[str, list[Exposed]] = {}

    def expose(self, target: str, *lines: Exposed, **labels: str) -> None:
        fresh = target not in self.exposed
        self.exposed[target] = list(lines)

        def scraped(now: int) -> Iterable[Exposed]:
            return self.exposed[target]

        if fresh:
            everywhere = {"namespace": "default", **labels}
            self.prometheus.add_target(target, everywhere, scraped, 0, phase=10 * SECOND)

    def to(self, seconds: float) -> int:
        now = int(seconds * SECOND)
        while (due := min(self.adapter.next_event(), self.prometheus.next_event() or now + 1)) <= now:
            self.prometheus.advance(due)
            self.adapter.advance(due)
        return now

    def queue(self, seconds: float, metric: str = "queue_age", selector: LabelSelector | None = None) -> list[int]:
        now = self.to(seconds)
        return list(self.adapter.external(metric, "default", selector, now)[0])

    def has(self, seconds: float, metric: str) -> bool:
        """Whether the metric has a value; otherwise the API says that it has nothing to say."""
        try:
            return bool(self.queue(seconds, metric))
        except MetricsError as error:
            if str(error) != "no metrics returned from external metrics API":
                raise
            return False


def test_a_new_series_is_unknown_until_the_next_relist() -> None:
    """The first list at 0 finds nothing; the sample of 10 s is there, the name only at 10 minutes."""
    world = World()
    world.expose("queue", Exposed("queue_age", 12.5))
    with pytest.raises(MetricsError) as caught:
        world.queue(599)
    assert str(caught.value) == (
        "unable to fetch metrics from external metrics API: "
        "the server could not find the metric queue_age for namespaces"
    )
    assert world.queue(600) == [12500]


def test_a_name_whose_samples_are_too_old_is_forgotten_at_a_relist() -> None:
    """The last sample is of 580 s: marked stale at 610 s, and more than 10 minutes old at the relist of 1200 s."""
    world = World()
    world.expose("queue", Exposed("queue_age", 1))
    world.queue(600)
    world.expose("queue")
    with pytest.raises(MetricsError, match="no metrics returned from external metrics API"):
        world.queue(700)
    with pytest.raises(MetricsError, match="could not find the metric queue_age"):
        world.queue(1200)


def test_a_metric_of_pods_is_stamped_with_the_time_of_the_question() -> None:
    """The window is not given, so the controller assumes 60 s; pods without the series are left out."""
    world = World()
    for name in ("web-1", "web-2", "web-3"):
        world.index.add(pod(name).labels(app="web").build())
    world.expose("web-1", Exposed("in_flight", 3, (("path", "a"),)), Exposed("in_flight", 4), pod="web-1")
    world.expose("web-2", Exposed("in_flight", 0.25), pod="web-2")
    now = world.to(605.5)
    found, time = world.adapter.pods("in_flight", "default", WEB, None, now)
    assert time == 605 * SECOND
    assert found == {
        "web-1": PodMetric(605 * SECOND, DEFAULT_WINDOW, 7000),
        "web-2": PodMetric(605 * SECOND, DEFAULT_WINDOW, 250),
    }
    only_a = LabelSelector(match_labels={"path": "a"})
    assert world.adapter.pods("in_flight", "default", WEB, only_a, now)[0]["web-1"].value == 3000
    with pytest.raises(MetricsError, match=r"^no metrics returned from custom metrics API$"):
        world.adapter.pods("in_flight", "other", WEB, None, now)


def test_a_rate_needs_two_scrapes_of_a_pod() -> None:
    """Growing by 60 per 30 s: 2 per second."""
    world = World()
    world.index.add(pod("web-1").labels(app="web").build())
    count = [0.0]

    def scraped(now: int) -> Iterable[Exposed]:
        count[0] += 60
        return [Exposed("requests_total", count[0] + 1e6)]

    world.prometheus.add_target("a", {"namespace": "default", "pod": "web-1"}, scraped, 0, phase=10 * SECOND)
    now = world.to(610)
    assert world.adapter.pods("requests_per_second", "default", WEB, None, now)[0]["web-1"].value == 2000


def test_unknown_metrics_of_pods_and_objects_are_named() -> None:
    """The texts that an operator finds in the HPA's events."""
    world = World()
    world.expose("ingress", Exposed("hits", 5), ingress="other")
    now = world.to(600)
    begin = "unable to fetch metrics from custom metrics API: the server could not find the metric "
    with pytest.raises(MetricsError) as caught:
        world.adapter.pods("nonsense", "default", WEB, None, now)
    assert str(caught.value) == begin + "nonsense for pods"
    with pytest.raises(MetricsError) as caught:
        world.adapter.object("hits", "default", INGRESS, None, now)
    assert str(caught.value) == begin + "hits for ingresses.networking.k8s.io shop"


def test_a_metric_of_an_object() -> None:
    """Summed over its series."""
    world = World()
    world.expose("ingress", Exposed("hits", 5), Exposed("hits", 6, (("code", "500"),)), ingress="shop")
    now = world.to(600)
    assert world.adapter.object("hits", "default", INGRESS, None, now) == (11000, 600 * SECOND)


def test_external_series_are_put_together_by_the_rule() -> None:
    """max of two, or each for itself (the controller adds them up); a selector narrows down."""
    world = World()
    world.expose("queue", Exposed("queue_age", 3, (("queue", "a"),)), Exposed("queue_age", 8, (("queue", "b"),)))
    assert world.queue(600) == [8000]
    assert world.queue(600, "queue_age_each") == [3000, 8000]
    assert world.queue(600, selector=LabelSelector(match_labels={"queue": "a"})) == [3000]


def test_the_age_of_a_queue_age_can_be_asked_for() -> None:
    """At 610 s it was scraped just now; at 635 s that is 25 s ago. The API itself would say "now"."""
    world = World()
    world.expose("queue", Exposed("queue_age", 3))
    now = world.to(635)
    found = world.adapter.freshness("queue_age", "default", None, now)
    assert found == (610 * SECOND, 25 * SECOND)
    assert world.adapter.external("queue_age", "default", None, now)[1] == 635 * SECOND
    assert world.adapter.freshness("nonsense", "default", None, now) is None


def test_what_a_stale_queue_age_becomes_is_up_to_the_rule() -> None:
    """The exporter falls silent after 610 s, without markers. Guarded at 60 s; look-back 5 minutes; pushed for ever."""
    world = World(markers=False)
    world.expose("queue", Exposed("queue_age", 3))
    world.queue(615)
    world.expose("queue")

    def seen(seconds: float) -> list[str]:
        names = ("queue_age_guarded", "queue_age", "queue_age_pushed")
        return [name for name in names if world.has(seconds, name)]

    assert seen(670) == ["queue_age_guarded", "queue_age", "queue_age_pushed"]
    assert seen(671) == ["queue_age", "queue_age_pushed"]
    assert seen(909) == ["queue_age", "queue_age_pushed"]
    assert seen(910) == ["queue_age_pushed"]
    assert seen(1190) == ["queue_age_pushed"]


def test_planned_faults_of_the_apis() -> None:
    """An error has its reason, an empty list says nothing was returned."""
    world = World(
        outages=(
            Outage(start=600 * SECOND, end=610 * SECOND, reason="Internal error occurred: unable to fetch metrics"),
            Outage(start=610 * SECOND, end=620 * SECOND, kind="empty"),
        )
    )
    world.expose("queue", Exposed("queue_age", 3))
    with pytest.raises(MetricsError, match=r"external metrics API: Internal error occurred: unable to fetch metrics$"):
        world.queue(605)
    with pytest.raises(MetricsError, match="no metrics returned from external metrics API"):
        world.queue(615)
    assert world.queue(620) == [3000]


def test_amounts_are_cut_to_milli_units() -> None:
    """As int64(value * 1000) does; not-a-number is 0."""
    assert [milli(x) for x in (1.9999, -1.9999, float("nan"))] == [1999, -1999, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": MINUTE, "when_stale": "keep"}, "metric x: a rate needs a positive window and cannot be kept"),
        ({"kind": "Pod"}, "metric x: a custom metric of kind Pod needs resource and label"),
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match=message):
        Rule(metric="x", series="x", **wrong)


def test_a_max_age_below_the_relist_interval_is_refused() -> None:
    """prometheus-adapter does not start with it."""
    with pytest.raises(ValueError, match="max_age: must not be less than relist_interval"):
        AdapterConfig(max_age=MINUTE)
