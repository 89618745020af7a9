"""Resource arithmetic: what nodes offer and what pods ask for, in each of the scheduler's views."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.names import (
    is_attachable_volume_resource,
    is_dra_extended_resource,
    is_extended_resource,
    is_hugepage_resource,
    is_native_resource,
    is_prefixed_native_resource,
    is_scalar_resource,
)
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.quantity import NANOS, QuantityError
from stowplan_scheduler.resources import (
    DEFAULT_MEMORY_REQUEST,
    Resource,
    balanced_request,
    fit_request,
    node_requested,
    non_zero_requested,
    pod_requests,
    resource_of,
    score_request,
)

MI = 2**20


def container(name: str = "main", *, sidecar: bool = False, **requests: object) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return {**made, "restartPolicy": "Always"} if sidecar else made


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **more: Any) -> Pod:
    status = more.pop("status", {})
    spec = {"containers": list(containers), "initContainers": init or [], **more}
    return msgspec.convert({"spec": spec, "status": status}, Pod)


# ---- Resource ------------------------------------------------------------------------------------------------------


def test_allocatable_reads_the_five_kinds_of_resource_and_ignores_the_rest() -> None:
    """cpu counts in milli, everything else in units rounded up; a name without meaning to the scheduler is dropped."""
    resource = Resource.from_map(
        {
            "cpu": "3920m", "memory": "0.1Ki", "ephemeral-storage": 1000, "pods": "110", "nvidia.com/gpu": "8",
            "hugepages-2Mi": "4Mi", "attachable-volumes-x": "39", "example.kubernetes.io/x": "1", "widgets": "7",
            "requests.example.com/y": "7",
        }
    )  # fmt: skip
    assert resource == Resource(
        3920, 103, 1000, 110,
        {"nvidia.com/gpu": 8, "hugepages-2Mi": 4 * MI, "attachable-volumes-x": 39, "example.kubernetes.io/x": 1},
    )  # fmt: skip
    names = ("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "none")
    assert [resource.get(name) for name in names] == [3920, 103, 1000, 110, 8, 0]


def test_a_bad_quantity_in_allocatable_is_an_error() -> None:
    """Silence would turn a typing error into a node without memory."""
    with pytest.raises(QuantityError):
        Resource.from_map({"memory": "8 GiB"})


amounts = st.integers(0, 1000)
resources = st.builds(
    Resource,
    amounts,
    amounts,
    amounts,
    amounts,
    st.dictionaries(st.sampled_from(["a.b/c", "d.e/f"]), amounts.filter(bool)),
)


@given(resources, resources)
def test_what_is_added_can_be_taken_away(left: Resource, right: Resource) -> None:
    """A node's sums come back to what they were when a pod leaves, and the operand is never touched."""
    total, before, operand = left.clone(), left.clone(), right.clone()
    total.add(right)
    assert total.milli_cpu == left.milli_cpu + right.milli_cpu
    assert total.get("a.b/c") == left.get("a.b/c") + right.get("a.b/c")
    total.sub(right)
    assert (total, left, right) == (before, before, operand)


def test_resources_share_no_scalars_after_a_change() -> None:
    """Empty mappings are shared to save memory, also after a round trip through pickle: a change must not spread."""
    first, second = pickle.loads(pickle.dumps((Resource(), Resource())))
    first.add(Resource(scalar={"a.b/c": 1}))
    assert second.get("a.b/c") == Resource().get("a.b/c") == 0
    copy = first.clone()
    copy.set_scalar("a.b/c", 5)
    assert first.get("a.b/c") == 1


def test_a_resource_is_unequal_to_other_things_and_prints_its_scalars_in_order() -> None:
    """The text appears in assertion messages and must not depend on insertion order."""
    resource = Resource(1, 2, scalar={"z.z/z": 1, "a.a/a": 2})
    assert resource != 1
    assert repr(resource) == (
        "Resource(milli_cpu=1, memory=2, ephemeral_storage=0, allowed_pod_number=0, scalar={'a.a/a': 2, 'z.z/z': 1})"
    )


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("cpu", False, False),
        ("nvidia.com/gpu", True, True),
        ("requests.nvidia.com/gpu", False, False),
        ("a/b/c", False, False),
        ("Bad_Domain/x", False, False),
        ("example.com/-x", False, False),
        ("hugepages-1Gi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("kubernetes.io/batch-cpu", False, True),
        ("deviceclass.resource.kubernetes.io/gpu", False, True),
        ("pods", False, False),
    ],
)
def test_names_decide_which_resources_count(name: str, extended: bool, scalar: bool) -> None:
    """Section 5.2 of the rules: extended, huge pages, prefixed native, attachable volumes."""
    assert (is_extended_resource(name), is_scalar_resource(name)) == (extended, scalar)


def test_the_other_name_rules() -> None:
    """A device class may serve an extended resource, or be named directly."""
    assert is_native_resource("cpu")
    assert not is_native_resource("nvidia.com/gpu")
    assert is_prefixed_native_resource("x.kubernetes.io/y")
    assert is_hugepage_resource("hugepages-2Mi")
    assert is_attachable_volume_resource("attachable-volumes-x")
    assert is_dra_extended_resource("deviceclass.resource.kubernetes.io/gpu")
    assert is_dra_extended_resource("nvidia.com/gpu")
    assert not is_dra_extended_resource("cpu")


# ---- pod requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ([container("s", sidecar=True, cpu="100m"), container("i", cpu="800m")], 900),
        ([container("i", cpu="800m"), container("s", sidecar=True, cpu="100m")], 850),
        ([container("i", cpu="100m")], 750),
        ([container("s", sidecar=True, cpu="1"), container("t", sidecar=True, cpu="1")], 2750),
    ],
)
def test_init_containers_and_sidecars(init: list[dict[str, Any]], expected: int) -> None:
    """An init container runs beside the sidecars before it; all sidecars run beside the 500m and 250m containers."""
    assert fit_request(pod(container(cpu="500m"), container("b", cpu="250m"), init=init)).milli_cpu == expected


def test_exact_amounts_are_summed_before_they_are_rounded() -> None:
    """Three times 0.1m is 0.3m, one milli; rounding first would give three."""
    assert fit_request(pod(*[container(cpu="0.1m") for _ in range(3)])).milli_cpu == 1


def test_overhead_comes_on_top_of_everything_even_pod_level_requests() -> None:
    """The sandbox of the pod costs what it costs."""
    made = pod(container(cpu="1"), overhead={"cpu": "10m"}, resources={"requests": {"cpu": "2"}})
    assert fit_request(made).milli_cpu == 2010


def test_pod_level_requests_replace_the_sum_for_what_they_name() -> None:
    """cpu, memory and huge pages only; memory is not named here and stays the containers' sum."""
    made = pod(
        {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}}},
        resources={"requests": {"cpu": "500m", "nvidia.com/gpu": 9, "hugepages-2Mi": "2Mi"}},
    )
    assert fit_request(made) == Resource(500, 2**30, scalar={"nvidia.com/gpu": 1, "hugepages-2Mi": 2 * MI})


def test_the_fit_score_ignores_pod_level_requests_and_the_filter_honours_them() -> None:
    """A quirk of upstream: the scorer of NodeResourcesFit is built without the feature switch."""
    made = pod(container(cpu="1"), resources={"requests": {"cpu": "4", "memory": "1Gi"}})
    assert fit_request(made) == Resource(4000, 2**30)
    assert score_request(made) == Resource(1000, DEFAULT_MEMORY_REQUEST)
    assert balanced_request(made) == Resource(4000, 2**30)
    assert non_zero_requested(made) == (4000, 2**30)


def test_containers_without_a_request_count_in_scores_but_an_explicit_zero_does_not() -> None:
    """100m and 200Mi for each container, init containers included, whose map lacks the name."""
    made = pod(container(), container("zero", cpu=0, memory=0), init=[container("i")])
    assert node_requested(made) == Resource()
    assert non_zero_requested(made) == (100, 200 * MI)
    assert score_request(made) == Resource(100, 200 * MI)
    assert non_zero_requested(pod(container(), container("b"))) == (200, 400 * MI)


def test_with_pod_level_requests_a_default_stands_in_only_for_what_nobody_names() -> None:
    """Two containers name no memory, and the pod names cpu only: memory gets 200Mi for each container, cpu nothing."""
    made = pod(container(), container("b"), resources={"requests": {"cpu": "50m"}})
    assert non_zero_requested(made) == (50, 400 * MI)


def resizing(**reasons: Any) -> Pod:
    status = {
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "1000m"}},
            {"name": "b", "allocatedResources": {"cpu": "500m"}},
        ],
        **reasons,
    }
    return pod(container("a", cpu="500m"), container("b", cpu="1000m"), status=status)


def test_two_opposite_resizes_cost_the_greatest_of_three_sums() -> None:
    """Up to 1.36 the maximum was taken per container, which gave 2000m here; 1.37 compares the sums."""
    assert node_requested(resizing()).milli_cpu == 1500
    assert balanced_request(resizing()).milli_cpu == 1500


def test_the_incoming_pod_is_measured_by_its_spec_alone() -> None:
    """A pod that waits has no status worth reading: Fit and its score do not look."""
    made = pod(
        container("a", cpu="1"), status={"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}]}
    )
    assert fit_request(made).milli_cpu == score_request(made).milli_cpu == 1000
    assert node_requested(made).milli_cpu == 9000


def test_an_infeasible_resize_counts_what_the_pod_has_and_not_what_it_wants() -> None:
    """Only the first condition of the type is read. A container without a status then counts nothing."""
    status: dict[str, Any] = {
        "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "300m"}}}],
        "conditions": [
            {"type": "PodResizePending", "reason": "Infeasible"},
            {"type": "PodResizePending", "reason": "Deferred"},
        ],
    }
    made = pod(container("a", cpu="4"), container("b", cpu="1"), status=status)
    assert node_requested(made).milli_cpu == 300
    deferred = {**status, "conditions": status["conditions"][::-1]}
    assert node_requested(pod(container("a", cpu="4"), container("b", cpu="1"), status=deferred)).milli_cpu == 5000


def test_what_the_kubelet_reports_for_the_pod_as_a_whole_is_used_directly() -> None:
    """With both maps in the pod's status the statuses of the containers are not added up."""
    status = {
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "2"}},
        "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}],
    }
    assert node_requested(pod(container("a", cpu="1"), status=status)).milli_cpu == 3000
    pod_level = {"requests": {"cpu": "500m"}}
    assert node_requested(pod(container("a", cpu="1"), resources=pod_level, status=status)).milli_cpu == 3000


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=4),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=4),
)
def test_the_request_covers_every_moment_of_the_pods_life(ordinary: list[int], init: list[tuple[bool, int]]) -> None:
    """Play the start of the pod step by step: the request is the greatest sum of what runs at one time."""
    running = peak = 0
    for sidecar, milli in init:
        peak = max(peak, running + milli)
        running += milli if sidecar else 0
    peak = max(peak, running + sum(ordinary))
    made = pod(
        *[container(f"c{i}", cpu=f"{milli}m") for i, milli in enumerate(ordinary)],
        init=[container(f"i{i}", sidecar=sidecar, cpu=f"{milli}m") for i, (sidecar, milli) in enumerate(init)],
    )
    assert fit_request(made).milli_cpu == peak


def test_requests_of_one_pod_are_a_new_dict_each_time() -> None:
    """Upstream hands out the pod's own quantities and then adds to them; here a second call gives the same answer."""
    made = pod(container(memory="1.5Gi"), overhead={"memory": "1Mi"}, resources={"requests": {"memory": "1.5Gi"}})
    first = pod_requests(made, use_status=True, pod_level=True)
    assert first == pod_requests(made, use_status=True, pod_level=True) == {"memory": (1536 + 1) * MI * NANOS}


def test_a_scalar_request_of_zero_is_no_request() -> None:
    """An explicit 0 never fails a filter and never enters a score, so it is not kept."""
    assert resource_of({"nvidia.com/gpu": 0, "pods": NANOS, "widgets": NANOS}) == Resource(allowed_pod_number=1)
