"""From a step in demand to ready pods: every moment worked out by hand."""

from __future__ import annotations

import pytest

from autoscaling.cosim.scenes import Played, deployment, hpa, play, scene, steps, visits
from stowplan_autoscaling.results import AttemptRecord, AutoscalerSample, ServiceSample

WEB = "Deployment shop/web"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """30 requests a second use 0.3 of the core that a pod requests; from 120 s on 150 use 1.5, for a target of 0.5."""
    demand = visits(steps(("0s", 30), ("2m", 150)))
    return play(tmp_path_factory.mktemp("scene"), scene(deployment(), hpa(), demand=[demand]))


def test_the_first_pod_starts_as_its_kubelet_lets_it(played: Played) -> None:
    """Created at 0, decided after 1 ms, a second for the sandbox; it has no probe and is ready when it runs."""
    first = played.pods(WEB)[0]
    assert first.created == pytest.approx(0, abs=1e-6)
    assert first.scheduled == pytest.approx(0.001, abs=1e-6)
    assert first.started == pytest.approx(1.001, abs=1e-6)
    assert first.ready == pytest.approx(1.001, abs=1e-6)


def test_the_autoscaler_reacts_when_a_sync_meets_a_sample_that_shows_it(played: Played) -> None:
    """cAdvisor looks at 1.002 s and every 10 s after; metrics-server reads at 135 s what was measured at 131 and 111.

    In these 20 s the pod used 8.998 x 0.3 + 11.002 x 1.5 = 19.2 core seconds: 96 % for a target of 50 %, so 2 pods. The
    syncs are every 15 s; that of 135 s comes before the round of 135 s is there, that of 150 s acts.
    """
    syncs = {round(row.seconds): row for row in played.rows(AutoscalerSample)}
    assert (syncs[135].current, syncs[135].proposed, syncs[135].value) == (1, 1, 30)
    acting = syncs[150]
    assert (acting.current, acting.proposed, acting.desired, acting.value, acting.target) == (1, 2, 2, 96, 50)
    assert acting.age == pytest.approx(19)
    assert played.times("SuccessfulRescale")[0] == pytest.approx(150, abs=1e-6)


def test_waiting_is_split_without_a_rest(played: Played) -> None:
    """Demand grew at 120, the sample is of 131, the scale was written at 150, the pod was ready at 151.001."""
    second = played.pods(WEB)[1]
    assert second.ready == pytest.approx(151.001, abs=1e-5)
    waiting = second.waiting
    assert waiting.metric == pytest.approx(11)
    assert waiting.autoscaler == pytest.approx(19, abs=1e-5)
    assert waiting.controller == pytest.approx(0, abs=1e-5)
    assert waiting.queue == pytest.approx(0.001, abs=1e-6)
    assert waiting.start == pytest.approx(1, abs=1e-5)
    assert (waiting.backoff, waiting.image, waiting.readiness) == (0, 0, 0)
    assert second.ready is not None
    assert sum(waiting) == pytest.approx(second.ready - 120, abs=1e-9)


def test_the_split_sums_to_the_whole_for_every_pod(played: Played) -> None:
    """From the change of demand, or from the creation of a pod that nobody scaled for, to readiness."""
    for pod in played.pods(WEB):
        assert pod.ready is not None
        before = pod.waiting.metric + pod.waiting.autoscaler + pod.waiting.controller
        assert sum(pod.waiting) == pytest.approx(pod.ready - pod.created + before, abs=1e-9)
        assert min(pod.waiting) >= 0


def test_in_the_end_there_are_as_many_pods_as_the_target_asks_for(played: Played) -> None:
    """1.5 cores / 0.5 per pod."""
    last = played.rows(AutoscalerSample)[-1]
    assert (last.current, last.desired, last.value) == (3, 3, 50)
    (workload,) = played.report.workloads
    assert (workload.ready.final, workload.cpu_used.final) == pytest.approx((3, 1.5))


def test_attempts_carry_their_work_counts(played: Played) -> None:
    """One node: M and K are 1."""
    attempts = played.rows(AttemptRecord)
    assert [(row.result, row.evaluated, row.feasible, row.node) for row in attempts] == [
        ("Scheduled", 1, 1, "node-1")
    ] * 3


def test_the_rows_of_a_service_add_up_to_what_came(played: Played) -> None:
    """30/s for 120 s and 150/s for 480 s; what came before the first pod was ready has failed: 1.001 s of 30/s."""
    (service,) = played.report.services
    assert service.offered == pytest.approx(30 * 120 + 150 * 480, rel=1e-6)
    assert service.failed == pytest.approx(1.001 * 30, rel=1e-3)
    assert service.served == pytest.approx(service.offered - service.failed, rel=1e-6)
    assert played.rows(ServiceSample)[-1].latency == pytest.approx(0.01, rel=0.01)
