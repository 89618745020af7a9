"""A sync that repeats the last one says the same as one that is done in full."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, SECOND, hpa
from stowplan_autoscaling.hpa import HorizontalController, HorizontalPodAutoscaler, Scale
from stowplan_autoscaling.hpa.controller import Outcome
from stowplan_autoscaling.hpa.metric_proposal import resource_status
from stowplan_autoscaling.hpa.objects import MetricSpec, MetricTarget, ResourceMetricSource


class Pair:
    """One autoscaler, synced by a controller that repeats where it may and by one that never does."""

    def __init__(self, autoscaler: HorizontalPodAutoscaler) -> None:
        self.quick, self.full = HorizontalController(), HorizontalController()
        self.of_quick = self.of_full = autoscaler
        self.repeated = 0

    def sync(self, current: int, proposal: int, usage: int, now: int) -> tuple[Outcome, Outcome]:
        """Both syncs; what they change is stored."""
        quick = self._quickly(current, proposal, usage, now)
        full = self._fully(self.full, self.of_full, current, proposal, usage, now)
        self.of_quick = stored(self.of_quick, quick)
        self.of_full = stored(self.of_full, full)
        return quick, full

    def _quickly(self, current: int, proposal: int, usage: int, now: int) -> Outcome:
        controller, autoscaler = self.quick, self.of_quick
        plan = controller.plan(autoscaler, autoscaler.key)
        status = resource_status(plan.metrics[0], usage, usage)
        found = controller.repeat(autoscaler.key, autoscaler, plan, current, proposal, status, now)
        self.repeated += found is not None
        return found or self._fully(controller, autoscaler, current, proposal, usage, now)

    @staticmethod
    def _fully(
        controller: HorizontalController,
        autoscaler: HorizontalPodAutoscaler,
        current: int,
        proposal: int,
        usage: int,
        now: int,
    ) -> Outcome:
        sync = controller.start(autoscaler)
        if controller.needs_metrics(sync, Scale(spec_replicas=current, selector="app=web"), now):
            controller.accept(sync, proposal, resource_status(sync.plan.metrics[0], usage, usage), now)
        return controller.finish(sync, now)


def stored(autoscaler: HorizontalPodAutoscaler, outcome: Outcome) -> HorizontalPodAutoscaler:
    return replace(autoscaler, status=outcome.status) if outcome.changed else autoscaler


def autoscaler_on_cpu() -> HorizontalPodAutoscaler:
    target = MetricTarget(type="Utilization", average_utilization=50)
    metric = MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu", target=target))
    return hpa(metric, least=2, most=12)


def test_any_series_of_proposals_ends_the_same() -> None:
    for seed in range(20):
        random, pair, now = Random(seed), Pair(autoscaler_on_cpu()), NOW
        current = proposal = random.randint(0, 14)
        for _ in range(300):
            now += 15 * SECOND
            if random.random() < 0.15:
                proposal = random.randint(0, 14)
            if random.random() < 0.05:
                current = random.randint(0, 14)
            quick, full = pair.sync(current, proposal, random.randint(1, 3), now)
            assert quick == full
            current = current if full.scale_to is None else full.scale_to
        assert pair.repeated > 30, seed


def test_a_sync_after_a_change_of_the_spec_is_done_in_full() -> None:
    pair, now = Pair(autoscaler_on_cpu()), NOW
    for _ in range(4):
        now += 15 * SECOND
        pair.sync(4, 4, 40, now)
    assert pair.repeated == 2
    for name in ("of_quick", "of_full"):
        old = getattr(pair, name)
        setattr(pair, name, replace(old, spec=replace(old.spec, max_replicas=4)))
    quick, full = pair.sync(4, 4, 40, now + 15 * SECOND)
    assert quick == full
    assert pair.repeated == 2


def test_one_that_was_removed_and_made_again_repeats_nothing() -> None:
    pair, now = Pair(autoscaler_on_cpu()), NOW
    for _ in range(3):
        now += 15 * SECOND
        pair.sync(4, 4, 40, now)
    assert pair.repeated
    pair.repeated = 0
    for controller in (pair.quick, pair.full):
        controller.removed(pair.of_quick.metadata.namespace, pair.of_quick.metadata.name)
    quick, full = pair.sync(4, 4, 40, now + 15 * SECOND)
    assert quick == full
    assert not pair.repeated
