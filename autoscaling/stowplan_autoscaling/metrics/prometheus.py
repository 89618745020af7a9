"""Prometheus as far as an autoscaler notices it: targets scraped each at its own time, samples, look-back, staleness.

A target is scraped at `interval` with a phase that its name fixes. The sample of a series is what the target exposes at
that moment. A query at `now` sees the newest sample of the last five minutes (the look-back). A series that a scrape
does not find any more, and every series of a scrape that fails, is marked stale and disappears at once; the series of a
target that service discovery drops disappear about two intervals later.

Follows scrape/scrape.go and promql/engine.go of Prometheus v3.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.streams import Streams

from .faults import NO_FAULTS, ScrapeFaults
from .rates import rate

STALE: Final = None
"""The value of a staleness marker."""

_PRUNE: Final = 64


class Exposed(NamedTuple):
    """One line of what a target exposes."""

    series: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


Expose = Callable[[int], Iterable[Exposed]]
"""What a target exposes at a moment (nanoseconds); the moment is always the present."""


class Sampled(NamedTuple):
    """A series as a query sees it."""

    labels: Mapping[str, str]
    value: float
    time: int
    """When the newest sample that the value rests on was taken, in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusConfig:
    """Times in nanoseconds."""

    interval: int = MINUTE
    """global.scrape_interval; kube-prometheus sets 30 s."""
    lookback: int = 5 * MINUTE
    """--query.lookback-delta."""
    markers: bool = True
    """Whether missing samples are marked. Prometheus does, except for samples with time stamps of their own (as
    exporters of a cloud's metrics expose them): those stay visible for the look-back."""
    retention: int = 20 * MINUTE
    """How long samples are kept: the longest rate() window, or the adapter's --metrics-max-age if that is longer."""
    faults: ScrapeFaults = NO_FAULTS

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError(f"interval: must be positive, got {self.interval / SECOND:g} s")


class Series:
    """The samples of one series, oldest first. `shown[i]`: from when a query sees sample i."""

    __slots__ = ("labels", "shown", "times", "values")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.times: list[int] = []
        self.values: list[float | None] = []
        self.shown: list[int] = []

    def append(self, time: int, value: float | None, shown: int, keep: int) -> None:
        """Add a sample; forget those older than `keep` now and then."""
        if self.times and time <= self.times[-1]:
            return
        self.times.append(time)
        self.values.append(value)
        self.shown.append(shown)
        if len(self.times) % _PRUNE == 0:
            gone = max(0, bisect_right(self.times, time - keep) - 1)
            del self.times[:gone], self.values[:gone], self.shown[:gone]

    def newest(self, now: int, *, real: bool = False) -> tuple[int, float | None] | None:
        """Time and value of the newest sample that can be seen; with `real`, markers do not count."""
        for position in range(bisect_right(self.times, now) - 1, -1, -1):
            if self.shown[position] <= now and not (real and self.values[position] is STALE):
                return self.times[position], self.values[position]
        return None

    def within(self, now: int, window: int) -> tuple[list[int], list[float]]:
        """Times and values in (now - window, now] without markers."""
        times: list[int] = []
        values: list[float] = []
        for position in range(bisect_right(self.times, now - window), bisect_right(self.times, now)):
            value = self.values[position]
            if value is not STALE and self.shown[position] <= now:
                times.append(self.times[position])
                values.append(value)
        return times, values


_Identity = tuple[tuple[str, str], ...]


class _Target:
    __slots__ = ("expose", "interval", "key", "labels", "present", "removed", "scrapes", "stale_at")

    def __init__(self, key: str, labels: Mapping[str, str], expose: Expose, interval: int) -> None:
        self.key = key
        self.labels = dict(labels)
        self.expose = expose
        self.interval = interval
        self.present: dict[tuple[str, _Identity], Series] = {}
        self.removed = False
        self.stale_at: int | None = None
        self.scrapes = 0


class Prometheus:
    """Scrapes and remembers.

    prometheus.add_target("default/web-1", {"namespace": "default", "pod": "web-1"}, expose, now)
    prometheus.advance(now)     # at each next_event()
    prometheus.instant("http_requests_total", {"namespace": "default"}, now)
    """

    def __init__(self, config: PrometheusConfig = PrometheusConfig(), *, streams: Streams) -> None:
        self.config = config
        self._streams = streams
        self._targets: dict[str, _Target] = {}
        self._due: list[tuple[int, int, _Target]] = []
        self._sequence = 0
        self._names: dict[str, dict[_Identity, Series]] = {}
        self._by_label: dict[tuple[str, str, str], dict[_Identity, Series]] = {}
        self._forgotten: list[tuple[str, Series]] = []

    # ---- targets

    def add_target(
        self,
        key: str,
        labels: Mapping[str, str],
        expose: Expose,
        now: int,
        *,
        interval: int | None = None,
        phase: int | None = None,
    ) -> None:
        """Service discovery finds a target. `phase`: from now to its first scrape; None: fixed by its name."""
        self.remove_target(key)
        target = _Target(key, labels, expose, interval or self.config.interval)
        if phase is None:
            # The offset is of the target's rhythm, not of its discovery: interval * hash, as seen from the epoch.
            offset = int(self._streams.uniform("prometheus/phase", key) * target.interval)
            phase = (offset - now) % target.interval
        self._targets[key] = target
        self._plan(now + phase, target)

    def remove_target(self, key: str) -> None:
        """Service discovery drops a target. Unknown targets are none of our business."""
        target = self._targets.pop(key, None)
        if target is not None:
            target.removed = True

    def _plan(self, when: int, target: _Target) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (when, self._sequence, target))

    # ---- scrapes

    def next_event(self) -> int | None:
        """When the next scrape is due; None without targets."""
        return self._due[0][0] if self._due else None

    def advance(self, now: int) -> None:
        """Do all scrapes that are due."""
        while self._due and self._due[0][0] <= now:
            when, _, target = heapq.heappop(self._due)
            if target.removed:
                self._end(target, when)
            else:
                self._scrape(target, when)
                self._plan(when + target.interval, target)

    def _scrape(self, target: _Target, now: int) -> None:
        key = f"{target.key}#{target.scrapes}"
        target.scrapes += 1
        faults = self.config.faults
        missing = faults.is_missing(self._streams, "prometheus", key)
        shown = now + faults.delay(self._streams, "prometheus", key)
        present: dict[tuple[str, _Identity], Series] = {}
        for exposed in () if missing else target.expose(now):
            identity = (exposed.series, exposed.labels)
            series = target.present.get(identity) or self._series(exposed.series, target.labels, exposed.labels)
            series.append(now, exposed.value, shown, self.config.retention)
            present[identity] = series
        if self.config.markers:
            for identity, series in target.present.items():
                if identity not in present:
                    series.append(now, STALE, shown, self.config.retention)
        target.present = present

    def _end(self, target: _Target, now: int) -> None:
        """Follow up a dropped target: at its following scrape, when its series go stale, when they are forgotten.

        The marker has the time of the scrape that did not take place and is written an interval and a tenth later,
        so that a target that comes back meanwhile keeps its series (endOfRunStaleness).
        """
        if target.stale_at is None:
            target.stale_at = now
            self._plan(now + target.interval + target.interval // 10, target)
        elif target.present:
            if self.config.markers:
                for series in target.present.values():
                    series.append(target.stale_at, STALE, now, self.config.retention)
            self._forgotten.extend((name, series) for (name, _), series in target.present.items())
            target.present = {}
            self._plan(now + self.config.retention, target)
        else:
            self._forget(now)

    def _forget(self, now: int) -> None:
        """Drop the series of dropped targets that are past retention."""
        kept: list[tuple[str, Series]] = []
        for name, series in self._forgotten:
            if series.times[-1] > now - self.config.retention:
                kept.append((name, series))
                continue
            identity = tuple(sorted(series.labels.items()))
            self._names[name].pop(identity, None)
            for key, text in identity:
                self._by_label[name, key, text].pop(identity, None)
        self._forgotten = kept

    def _series(self, name: str, common: Mapping[str, str], own: Iterable[tuple[str, str]]) -> Series:
        labels = {**dict(own), **common}
        identity = tuple(sorted(labels.items()))
        known = self._names.setdefault(name, {})
        series = known.get(identity)
        if series is None:
            series = known[identity] = Series(labels)
            for key, text in identity:
                self._by_label.setdefault((name, key, text), {})[identity] = series
        return series

    # ---- queries

    def matching(self, name: str, labels: Mapping[str, str]) -> Iterable[Series]:
        """The series of a name that have these labels, in the order in which they appeared."""
        if not labels:
            return self._names.get(name, {}).values()
        candidates = min((self._by_label.get((name, *pair), {}) for pair in labels.items()), key=len)
        wanted = labels.items()
        return [series for series in candidates.values() if wanted <= series.labels.items()]

    def instant(self, name: str, labels: Mapping[str, str], now: int) -> list[Sampled]:
        """`name{labels}` at now."""
        found: list[Sampled] = []
        for series in self.matching(name, labels):
            newest = series.newest(now)
            if newest is not None and newest[1] is not STALE and newest[0] > now - self.config.lookback:
                found.append(Sampled(series.labels, newest[1], newest[0]))
        return found

    def rate(self, name: str, labels: Mapping[str, str], window: int, now: int) -> list[Sampled]:
        """`rate(name{labels}[window])` at now."""
        found: list[Sampled] = []
        for series in self.matching(name, labels):
            times, values = series.within(now, window)
            value = rate(times, values, now, window)
            if value is not None:
                found.append(Sampled(series.labels, value, times[-1]))
        return found

    def last_known(self, name: str, labels: Mapping[str, str], now: int) -> list[Sampled]:
        """The newest sample of each series, however old, whether marked stale or not."""
        found: list[Sampled] = []
        for series in self.matching(name, labels):
            newest = series.newest(now, real=True)
            if newest is not None and newest[1] is not None:
                found.append(Sampled(series.labels, newest[1], newest[0]))
        return found

    def names(self, now: int, since: int) -> set[str]:
        """Names of series with a sample in [since, now]: what /api/v1/series answers."""
        return {name for name, known in self._names.items() if any(_seen(s, now, since) for s in known.values())}


def _seen(series: Series, now: int, since: int) -> bool:
    newest = series.newest(now, real=True)
    return newest is not None and newest[0] >= since
