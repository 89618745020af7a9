"""Any value in any place of a manifest either works or is an error of one line: never another exception."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.inputs import InputError, json_reader, load_cluster

MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
spec: {unschedulable: false, taints: [{key: a, value: b, effect: NoSchedule}]}
status:
  allocatable: {cpu: "4", memory: 8Gi}
  images: [{names: [a, b], sizeBytes: 5}]
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
globalDefault: true
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: shop
  labels: {app: p}
  ownerReferences: [{apiVersion: v1, kind: ReplicaSet, name: r, uid: u, controller: true}]
spec:
  priorityClassName: high
  nodeSelector: {zone: a}
  overhead: {cpu: 1m}
  resources: {requests: {cpu: 10m}}
  initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: 1m}}}]
  containers:
  - name: c
    ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]
    resources: {requests: {cpu: 500m, hugepages-2Mi: 2Mi}, limits: {cpu: 1, hugepages-2Mi: 2Mi}}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoSchedule, tolerationSeconds: 3}]
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {app: p}, matchExpressions: [{key: x, operator: In, values: [z]}]}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, labelSelector: {matchLabels: {app: q}}, matchLabelKeys: [app]}
status: {phase: Running, conditions: [{type: PodScheduled, status: "True"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}, annotations: {a: b}}
    spec: {containers: [{name: c}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ds}
spec:
  selector: {matchLabels: {app: ds}}
  template:
    metadata: {labels: {app: ds}}
    spec: {nodeName: n1, tolerations: [{operator: Exists}], containers: [{name: c}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {parallelism: 2, completions: 2, completionMode: Indexed, template: {spec: {containers: [{name: c}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: 50%, selector: {matchLabels: {app: d}}}
"""
DOCUMENTS = list(yaml.safe_load_all(MANIFESTS))

Path = tuple[str | int, ...]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    yield at
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        yield from paths(member, (*at, step))


def replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy = deepcopy(value)
    target = copy
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = new
    return copy


PLACES = list(paths(DOCUMENTS))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(
        [2**63 - 1, -(2**62), 1.5, "", "x", "5", "1e99999999", "-1", "a b", "\n", "é" * 300, [], {}, [None], [[]]]
    ),
    st.sampled_from([{"x": None}, {"": ""}, {"a": {"b": []}}, "List", "Pod", "v1", "NotIn", "Exists", "n1", "d"]),
)


def outcome(data: bytes) -> str:
    """The message, or how many pods there are."""
    try:
        return str(len(load_cluster(["-"], stdin=io.BytesIO(data)).pods))
    except InputError as error:
        return str(error)


def test_the_manifests_are_good_before_they_are_mutated() -> None:
    """Otherwise the property below would hold for nothing: 1 pod, and 2 + 1 + 2 of workloads."""
    assert outcome(MANIFESTS.encode()) == "6"


@given(st.sampled_from(PLACES), VALUES)
def test_a_wrong_value_anywhere_is_an_error_of_one_line(place: Path, value: Any) -> None:
    """Replaces one value of one manifest, and reads the result as YAML and in both ways as JSON."""
    documents = replaced(DOCUMENTS, place, value)
    text = json.dumps({"kind": "List", "items": documents}).encode()
    messages = [outcome(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "WHOLE_BYTES", 20)
        messages.append(outcome(text))
    if isinstance(documents, list):
        messages.append(outcome(yaml.safe_dump_all(documents, allow_unicode=True).encode()))
    assert not any("\n" in message for message in messages)
    # Reading at once and as a stream may word the same problem differently, but they agree on whether there is one.
    assert messages[0].isdigit() == messages[1].isdigit()
