"""Equal parts of pods are held once, and no pod is changed by it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan_operator.api.decode import MODIFIED, ObjectDecoder, WatchEvent
from stowplan_operator.api.kinds import PODS
from stowplan_operator.api.sharing import OwnerSharing, with_parts_of
from stowplan_operator.api.store import ObjectStore
from stowplan_scheduler.framework.pod_info import _keeps_shape
from stowplan_scheduler.objects import Pod


def pod(name: str = "web-1", owner: str = "rs", *, version: int = 1, node: str = "", **changes: Any) -> Pod:
    """A pod as the server sends it, decoded anew each time; every pod has a token volume of its own name."""
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": f"uid-{owner}",
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "labels": {"app": "web"},
        "ownerReferences": [reference] if owner else [],
    }
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"disk": "ssd"},
        "volumes": [{"name": f"token-{name}"}],
        "nodeName": node,
        **changes.pop("spec", {}),
    }
    body = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", **changes}}
    found: Pod = ObjectDecoder(PODS).object(json.dumps(body).encode())
    return found


def test_pods_of_one_owner_hold_the_parts_of_their_template_once() -> None:
    """What is their own stays their own; pods of others, and of nobody, share nothing."""
    sharing = OwnerSharing()
    first, second = sharing.share(pod("web-1")), sharing.share(pod("web-2", node="n1"))
    assert second == pod("web-2", node="n1")
    assert second.spec.containers is first.spec.containers
    assert second.spec.node_selector is first.spec.node_selector
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.spec.volumes[0].name == "token-web-2"
    other, alone = sharing.share(pod("db-1", "db")), sharing.share(pod("alone", ""))
    assert other.spec.containers is not first.spec.containers
    assert sharing.share(pod("alone", "")).spec.containers is not alone.spec.containers


def test_of_owners_that_are_too_many_the_oldest_is_forgotten() -> None:
    sharing = OwnerSharing(owners=1)
    first = sharing.share(pod("web-1", "one"))
    sharing.share(pod("web-2", "two"))
    again = sharing.share(pod("web-3", "one"))
    assert again.spec.containers is not first.spec.containers
    assert sharing.share(pod("web-4", "one")).spec.containers is again.spec.containers


def test_a_pod_that_gets_its_node_keeps_everything_that_a_scheduler_reads() -> None:
    """The core then sees by identity that nothing else has changed."""
    store = ObjectStore()
    store.replace([pod(version=1)], "1")
    conditions = [{"type": "PodScheduled", "status": "True"}]
    (change,) = store.apply(WatchEvent(MODIFIED, pod(version=2, node="n1", conditions=conditions)))
    assert change.new == pod(version=2, node="n1", conditions=conditions)
    assert _keeps_shape(change.old, change.new)
    (change,) = store.replace([pod(version=3, node="n1", conditions=conditions)], "3")
    assert change.new.spec is change.old.spec
    assert change.new.status is change.old.status
    assert store.objects["shop/web-1"] is change.new
    bigger = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    (change,) = store.apply(WatchEvent(MODIFIED, pod(version=4, node="n1", spec={"containers": bigger})))
    assert not _keeps_shape(change.old, change.new)
    assert change.new.spec.node_selector is change.old.spec.node_selector


_PODS = st.builds(
    pod,
    st.sampled_from(["web-1", "web-2"]),
    st.sampled_from(["rs", "other", ""]),
    version=st.integers(1, 3),
    node=st.sampled_from(["", "n1"]),
    spec=st.fixed_dictionaries(
        {},
        optional={
            "tolerations": st.sampled_from([[], [{"key": "a"}], [{"operator": "Exists"}]]),
            "containers": st.sampled_from([[], [{"name": "main"}], [{"name": "main", "image": "x"}]]),
            "overhead": st.sampled_from([{}, {"cpu": "1"}, {"cpu": 1}]),
        },
    ),
    phase=st.sampled_from(["Pending", "Running"]),
)


@given(st.lists(_PODS, max_size=8))
def test_a_shared_pod_equals_the_pod(found: list[Pod]) -> None:
    sharing = OwnerSharing(owners=2)
    before: Pod | None = None
    for each in found:
        shared = sharing.share(each)
        assert shared == each
        if before is not None:
            assert with_parts_of(before, shared) == each
        before = shared
