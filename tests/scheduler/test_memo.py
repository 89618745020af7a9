"""What is kept between decisions must never show: memo on = memo off, and the same inputs give the same bytes.

This is the safety net of every optimisation in framework/: a rule that declares too few inputs, an entry that outlives
its node, or a counter that misses a pod would make some history end differently.
"""

from __future__ import annotations

import gzip
import itertools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, Phase, given, settings

from stowplan_scheduler.effects import Effect
from support.builders import node, pod
from support.histories import BINDINGS, COMMON, RARE, History, Play, Step, histories, scheduler_of

SETTINGS = settings(
    max_examples=60,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
ALL_KINDS = (*COMMON, *COMMON, *RARE, *BINDINGS)


def bytes_of(effects: list[Effect]) -> list[bytes]:
    """Every effect with all its fields, objects included, as text."""
    return [repr(effect).encode() for effect in effects]


@given(histories(kinds=ALL_KINDS, steps=60))
@SETTINGS
def test_the_memo_changes_no_effect(history: History) -> None:
    """Also not a memo so small that every entry pushes another one out."""
    without = Play(history, scheduler_of(history, memo=False)).run()
    full = Play(history, scheduler_of(history, memo=True)).run()
    assert bytes_of(full) == bytes_of(without)
    tiny = Play(history, scheduler_of(history, memo=True, max_memo_bytes=600)).run()
    assert bytes_of(tiny) == bytes_of(without)


@given(histories(sizes=(105,), percentages=(0, 1), steps=40, kinds=ALL_KINDS))
@settings(SETTINGS, max_examples=8)
def test_the_memo_changes_no_effect_where_nodes_are_sampled(history: History) -> None:
    """A bundle is then filled piece by piece, and only some of the stale rows are computed again."""
    without = Play(history, scheduler_of(history, memo=False)).run()
    assert bytes_of(Play(history, scheduler_of(history)).run()) == bytes_of(without)


@given(histories(kinds=ALL_KINDS, steps=30))
@settings(SETTINGS, max_examples=15)
def test_the_same_history_gives_the_same_effects(history: History) -> None:
    """No clock, no chance, no state shared between schedulers: the second run starts with every module cache warm."""
    first = Play(history, scheduler_of(history)).run()
    assert bytes_of(Play(history, scheduler_of(history)).run()) == bytes_of(first)


def test_a_small_memo_stays_within_its_bound() -> None:
    """Forty templates of pods on three nodes need more than a kilobyte; the longest unused entries must go."""
    pods = tuple(pod(f"p{i}").req(cpu=f"{i + 1}m").tolerate(f"key-{i}").build() for i in range(40))
    steps = tuple(Step(kind, 0, i) for i in range(40) for kind in ("pods", "cycle"))
    history = History(
        node_templates=(node("n").build(),),
        pod_templates=pods,
        size=3,
        grace=False,
        configuration={"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
        steps=steps,
    )
    roomy, small = scheduler_of(history), scheduler_of(history, max_memo_bytes=8000)
    assert bytes_of(Play(history, roomy).run()) == bytes_of(Play(history, small).run())
    assert roomy.profiles["default-scheduler"].memo.nbytes > 8000
    assert small.profiles["default-scheduler"].memo.nbytes <= 8000


SCENARIOS = 20
"""Recorded run scenarios that are played once per hash seed."""

DIGEST = """
import hashlib, json, sys
from stowplan_scheduler.conformance import run
from stowplan_scheduler.scheduler import Scheduler

digest, count = hashlib.sha256(), 0

class Overheard(Scheduler):
    def _taken(self, now):
        global count
        effects = super()._taken(now)
        digest.update(repr(effects).encode())
        count += len(effects)
        return effects

run.Scheduler = Overheard
for line in sys.stdin:
    digest.update(json.dumps(run.run(json.loads(line))).encode())
print(count, digest.hexdigest())
"""
"""A program that plays scenarios and prints the number of effects and what they come to, byte by byte."""


def test_hashing_decides_nothing(repository: Path) -> None:
    """Sets of strings come in another order with every hash seed; effects must not."""
    lines = scenario_lines(repository)
    programs = [start(seed) for seed in ("1", "4242")]
    first, second = (program.communicate(lines)[0] for program in programs)
    assert first == second
    count, _ = first.split()
    assert int(count) > 1000


def scenario_lines(repository: Path) -> bytes:
    """The first recorded scenarios."""
    with gzip.open(repository / "tests/conformance/golden/run.jsonl.gz", "rb") as recorded:
        chosen = [msgspec.json.decode(line)["scenario"] for line in itertools.islice(recorded, SCENARIOS)]
    return b"\n".join(msgspec.json.encode(scenario) for scenario in chosen)


def start(seed: str) -> subprocess.Popen[bytes]:
    """The program with this hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.Popen(
        [sys.executable, "-c", DIGEST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
