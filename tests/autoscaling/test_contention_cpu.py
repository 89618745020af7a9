"""CPU contention: weights and quota as the kubelet sets them, shares by hand, and the properties of water-filling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.contention import (
    UNLIMITED,
    CpuShares,
    CpuTree,
    QosClass,
    cpu_shares,
    cpu_weight,
    share_cpu,
    throttled_periods,
    water_fill,
)

BEST_EFFORT, BURSTABLE, GUARANTEED = QosClass.BEST_EFFORT, QosClass.BURSTABLE, QosClass.GUARANTEED


def share(
    *pods: tuple[float, int, int, QosClass], capacity: float = 4, nodes: list[int] | None = None, system: float = 0
) -> CpuShares:
    """Pods as (demand, request, limit, class), all on the first node unless `nodes` says otherwise."""
    node = np.asarray(nodes if nodes is not None else [0] * len(pods), dtype=np.int64)
    count = int(node.max()) + 1
    return share_cpu(
        node=node,
        capacity=np.full(count, float(capacity)),
        demand=np.asarray([pod[0] for pod in pods], dtype=float),
        request=np.asarray([pod[1] for pod in pods], dtype=np.int64),
        limit=np.asarray([pod[2] for pod in pods], dtype=np.int64),
        qos=np.asarray([pod[3] for pod in pods], dtype=np.int64),
        system=np.full(count, float(system)),
    )


def test_requests_become_weights_as_in_the_kubelet() -> None:
    """MilliCPUToShares and getCPUWeight: one core is 1024 shares and weight 39; nothing is 2 and 1; a lot is 10,000."""
    milli = np.asarray([0, 1, 100, 1000, 4000, 256_000, 1_000_000])
    assert cpu_shares(milli).tolist() == [2, 2, 102, 1024, 4096, 262_144, 262_144]
    assert cpu_weight(cpu_shares(milli)).tolist() == [1, 1, 4, 39, 157, 10_000, 10_000]
    assert cpu_weight(np.asarray([262_143, 131_073])).tolist() == [9999, 5000]


def test_whoever_finds_room_gets_all_he_wants() -> None:
    """3 of 4 cores: requests do not matter, until the first wants more: then 4 of 5 parts are his by weight."""
    got = share((2, 100, UNLIMITED, BURSTABLE), (1, 0, UNLIMITED, BEST_EFFORT))
    assert got.granted.tolist() == [2, 1]
    assert got.lost_to_others.tolist() == [0, 0]
    assert got.available == pytest.approx([3.2, 2])


def test_two_hungry_pods_share_by_weight() -> None:
    """Weights 39 and 157 (1 and 4 cores) of 4 cores: 0.796 and 3.204."""
    got = share((9, 1000, UNLIMITED, BURSTABLE), (9, 4000, UNLIMITED, BURSTABLE))
    assert got.granted == pytest.approx([4 * 39 / 196, 4 * 157 / 196])
    assert got.alone.tolist() == [4, 4]
    assert got.lost_to_others == pytest.approx([157 / 196, 39 / 196])


def test_what_one_does_not_use_goes_to_the_others() -> None:
    """The big one wants 1 core only: the small one gets the other 3."""
    got = share((9, 1000, UNLIMITED, BURSTABLE), (1, 4000, UNLIMITED, BURSTABLE))
    assert got.granted == pytest.approx([3, 1])


def test_a_limit_throttles_although_the_node_is_idle() -> None:
    """Wants 2, may use 0.5: three quarters are throttled; that is nobody else's fault."""
    got = share((2, 100, 500, BURSTABLE))
    assert got.granted.tolist() == [0.5]
    assert got.throttled_share.tolist() == [0.75]
    assert got.lost_to_others.tolist() == [0]
    assert got.available.tolist() == [0.5]


def test_a_quota_is_at_least_a_millisecond() -> None:
    """MilliCPUToQuota: 1 ms in 100 ms, so a limit of 3m works as 10m."""
    assert share((1, 1, 3, BURSTABLE)).granted.tolist() == [0.01]


def test_bursts_are_throttled_although_the_average_is_within_the_limit() -> None:
    """0.4 cores by 100 requests a second: 10 ± 3.16 per period. At a limit of 0.5 (12.5), 0.79 deviations: 21.5 %.

    More and smaller requests even out: 1,000 a second, 2.5 deviations, 0.6 %.
    """
    demand, limit = np.full(5, 0.4), np.asarray([500, 500, UNLIMITED, 500, 300])
    share = throttled_periods(demand, limit, np.asarray([100, 1000, 100, 0, 0], dtype=float))
    assert share == pytest.approx([0.2146, 0.0062, 0, 0, 1], abs=1e-4)


def test_best_effort_starves_behind_requests() -> None:
    """Weight 1 for all BestEffort pods together, 39 for the one with a request: 0.1 of 4 cores for two of them."""
    got = share((9, 1000, UNLIMITED, BURSTABLE), (9, 0, UNLIMITED, BEST_EFFORT), (9, 0, UNLIMITED, BEST_EFFORT))
    assert got.granted == pytest.approx([3.9, 0.05, 0.05])


def test_idle_weight_of_the_burstable_group_serves_its_members_first() -> None:
    """Two groups: a Guaranteed pod (39) and the Burstable group of 1 + 3 cores (157). The idle one's weight stays.

    4 cores: the Guaranteed pod gets 4 · 39 / 196 = 0.796, not the half that equal pods on one level would.
    """
    got = share((9, 1000, 9000, GUARANTEED), (9, 1000, UNLIMITED, BURSTABLE), (0, 3000, UNLIMITED, BURSTABLE))
    assert got.granted == pytest.approx([4 * 39 / 196, 4 * 157 / 196, 0])


def test_what_the_system_uses_is_gone() -> None:
    """Half a core for the kubelet: 3.5 are left, also of what is reserved."""
    assert share((9, 1000, UNLIMITED, BURSTABLE), system=0.5).granted.tolist() == [3.5]


def test_what_a_pod_could_use_is_its_own_part_at_least() -> None:
    """A service gets that much to work with until the next look: idle cores, or its weight's part of a full node."""
    got = share((0.5, 1000, UNLIMITED, BURSTABLE), (9, 1000, UNLIMITED, BURSTABLE))
    assert got.granted == pytest.approx([0.5, 3.5])
    assert got.available == pytest.approx([2, 3.5])


def test_unbounded_demand_is_all_there_is() -> None:
    """What a busy loop wants; it is not throttled, since it has no limit."""
    got = share((np.inf, 1000, UNLIMITED, BURSTABLE))
    assert (got.granted[0], got.throttled[0]) == (4, 0)


def test_no_pods_and_empty_nodes() -> None:
    """Both occur at the start of a run."""
    none = np.zeros(0, dtype=np.int64)
    for capacity in (np.zeros(0), np.full(3, 4.0)):
        got = share_cpu(node=none, capacity=capacity, demand=np.zeros(0), request=none, limit=none, qos=none)
        assert got.granted.size == 0
    assert share((1, 0, UNLIMITED, BEST_EFFORT), nodes=[2]).granted.tolist() == [1]


pods = st.tuples(
    st.integers(0, 3),
    st.floats(0, 8),
    st.integers(0, 4000),
    st.one_of(st.just(UNLIMITED), st.integers(1, 6000)),
    st.sampled_from(list(QosClass)),
)


@given(st.lists(pods, min_size=1, max_size=25), st.floats(0.1, 16))
@settings(max_examples=150)
def test_water_filling_keeps_its_promises(rows: list[tuple[int, float, int, int, QosClass]], capacity: float) -> None:
    """No more than there is, than is wanted, than the limit; nothing idle that somebody wants."""
    got = share(*[row[1:] for row in rows], capacity=capacity, nodes=[row[0] for row in rows])
    node = np.asarray([row[0] for row in rows])
    asked = np.asarray([min(row[1], max(row[3], 10) / 1000 if row[3] != UNLIMITED else 1e9) for row in rows])
    assert (got.granted <= asked + 1e-9).all()
    assert (got.granted <= got.available + 1e-9).all()
    assert (got.available <= capacity + 1e-9).all()
    assert (got.granted <= got.alone + 1e-9).all()
    for n in range(4):
        mine = node == n
        total, wanted = float(got.granted[mine].sum()), float(asked[mine].sum())
        assert total == pytest.approx(min(wanted, capacity), abs=1e-6)


@given(st.lists(pods, min_size=2, max_size=15), st.floats(0.1, 8), st.floats(0.1, 8))
@settings(max_examples=100)
def test_more_cores_take_nothing_from_anybody(
    rows: list[tuple[int, float, int, int, QosClass]], first: float, second: float
) -> None:
    """Monotone in the capacity, and in the demand of the one who asks."""
    nodes = [row[0] for row in rows]
    less = share(*[row[1:] for row in rows], capacity=min(first, second), nodes=nodes)
    more = share(*[row[1:] for row in rows], capacity=max(first, second), nodes=nodes)
    assert (more.granted >= less.granted - 1e-6).all()
    asking = [row[1:] for row in rows]
    asking[0] = (rows[0][1] + 1, *rows[0][2:])
    greedy = share(*asking, capacity=min(first, second), nodes=nodes)
    assert greedy.granted[0] >= less.granted[0] - 1e-6
    assert (greedy.granted[1:] <= less.granted[1:] + 1e-6).all()


@given(st.lists(pods, min_size=1, max_size=12), st.lists(pods, min_size=1, max_size=12), st.floats(0.1, 8))
@settings(max_examples=60)
def test_a_node_does_not_feel_the_others_to_the_last_bit(
    mine: list[tuple[int, float, int, int, QosClass]],
    others: list[tuple[int, float, int, int, QosClass]],
    capacity: float,
) -> None:
    """Candidates that differ on one node must not drift apart on all."""
    alone = share(*[row[1:] for row in mine], capacity=capacity)
    rows = [*others, *mine]
    nodes = [row[0] + 1 for row in others] + [0] * len(mine)
    among = share(*[row[1:] for row in rows], capacity=capacity, nodes=nodes)
    assert among.granted[len(others) :].tobytes() == alone.granted.tobytes()


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20)), min_size=1, max_size=12),
    st.integers(0, 400),
)
def test_the_level_is_the_one_that_uses_up_the_capacity(rows: list[tuple[int, int]], capacity: int) -> None:
    """Found by sorting; here checked by filling in."""
    demand, weight = (np.asarray(column, dtype=np.int64) for column in zip(*rows, strict=True))
    got, level = water_fill(np.zeros(len(rows), dtype=np.int64), np.asarray([capacity]), demand, weight)
    if demand.sum() <= capacity:
        assert np.isinf(level[0])
        assert got.tolist() == demand.tolist()
    else:
        assert float(np.minimum(demand, weight * level[0]).sum()) == pytest.approx(capacity, abs=1e-6)


def test_a_tree_divides_one_demand_after_the_other() -> None:
    """Room for all, too little for all, room again: each time as if it were the first."""
    pods = {
        "node": np.asarray([0, 0, 1, 1]),
        "capacity": np.asarray([4.0, 2.0]),
        "request": np.asarray([1000, 4000, 0, 500]),
        "limit": np.asarray([UNLIMITED, UNLIMITED, UNLIMITED, 700]),
        "qos": np.asarray([BURSTABLE, BURSTABLE, BEST_EFFORT, GUARANTEED]),
    }
    tree = CpuTree(**pods)
    for demand in ([1.0, 2.0, 0.5, 0.5], [9.0, 9.0, 9.0, 9.0], [1.0, 2.0, 0.5, 0.5]):
        got, anew = tree.share(np.asarray(demand)), share_cpu(demand=np.asarray(demand), **pods)
        for name in ("granted", "available", "alone", "throttled"):
            assert getattr(got, name).tolist() == getattr(anew, name).tolist()
    assert tree.share(np.asarray([1.0, 2.0, 0.5, 0.5])).granted.tolist() == [1.0, 2.0, 0.5, 0.5]
