"""spec.cluster and spec.workloads: nodes, what runs on them, and what is asked of them."""

from __future__ import annotations

from typing import Annotated, Literal

from .base import (
    NAME_PATTERN,
    FreeForm,
    FromList,
    KubernetesObject,
    Labels,
    Names,
    ObjectRef,
    Part,
    needed,
    option,
    parts,
)
from .demand import RunTime
from .values import Amount, Bytes, Number, Share

Amounts = dict[str, Amount]


class Taint(Part):
    """A taint of the nodes of a group."""

    key: str = needed("Key of the taint.", min_length=1, max_length=316)
    value: str = option("", "Value of the taint.", max_length=63)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = needed("What happens to pods without toleration.")


class Reservations(Part):
    """What of the capacity pods cannot have: allocatable = capacity - kube - system - evictionHard (as kubelet)."""

    kube: Amounts = option(
        {}, "kubelet's --kube-reserved, by resource.", source="kubelet v1.37.2: nothing", max_length=16
    )
    system: Amounts = option(
        {}, "kubelet's --system-reserved, by resource.", source="kubelet v1.37.2: nothing", max_length=16
    )
    eviction_hard: dict[str, str] = option(
        {"memory.available": "100Mi", "nodefs.available": "10%"},
        "kubelet's --eviction-hard: amounts or shares by signal.",
        source="kubelet v1.37.2",
        max_length=16,
    )


class NodeGroup(Part):
    """Nodes that are alike. They are there from the start and stay."""

    name: str = needed(
        "Name of the group; every node has it as label stowplan.io/node-group.", pattern=NAME_PATTERN, max_length=50
    )
    count: int = needed("Number of nodes.", ge=0, le=100_000)
    name_prefix: str = option(
        "", "Nodes are called PREFIX1, PREFIX2, ... Empty: the group's name and a dash.", max_length=200
    )
    capacity: Amounts = needed(
        "Capacity by resource (status.capacity of each node). Without pods it is 110, kubelet's --max-pods.",
        min_length=1,
        max_length=32,
    )
    reserved: Reservations = option({}, "What pods cannot have of the capacity.")
    labels: Labels = option({}, "Labels of every node, beside those that kubelet sets.", max_length=64)
    taints: Annotated[tuple[Taint, ...], FromList] = parts("Taints of every node.", max_length=32)
    zones: Names = parts(
        "Zones (label topology.kubernetes.io/zone) that the nodes are dealt to in turn; none: no such label.",
        max_length=16,
    )
    instance_type: str = option("", "Label node.kubernetes.io/instance-type; empty: no such label.", max_length=63)
    price: Number | None = option(
        None, "Price of each node per hour. Absent: that of its instance type, if there is one; else it costs nothing."
    )


class ClusterSpec(Part):
    """The nodes, and objects that are there from the start. Sources add up; names must be unique over all."""

    objects: Annotated[tuple[KubernetesObject, ...], FromList] = parts(
        "Kubernetes objects: nodes, namespaces, priority classes and whatever else is there.", max_length=10_000
    )
    files: Names = parts(
        "Files, folders and patterns (nodes/*.yaml), relative to this file. Only `stowplan simulate` can read files.",
        max_length=256,
    )
    snapshot: str = option(
        "",
        "A dump of a cluster, of `kubectl get nodes,pods,... -A -o json`, relative to this file. Its objects are taken "
        "as they are; pods stay on their nodes.",
        max_length=4096,
    )
    node_groups: Annotated[tuple[NodeGroup, ...], FromList] = parts("Nodes, by the number.", max_length=256)
    pod_ips: int | None = option(
        None,
        "IP addresses there are for pods in all; a pod beyond that waits on its node for one. Absent: no limit.",
        ge=0,
        alias="podIPs",
    )


class Task(Part):
    """What the pods of a Job or CronJob do that no entry of spec.demand makes."""

    target: ObjectRef = needed("The Job or CronJob.")
    run_time: RunTime = needed("How long each pod runs with the cpu it wants, once its containers have started.")
    cpu: Number | None = option(None, "Cores that a running pod wants. Absent: what it requests.")
    wait: Share = option(0, "Share of the run time that uses no cpu; it comes first.")
    memory: Bytes | None = option(None, "Working set of a running pod. Absent: what it requests.")


class WorkloadsSpec(Part):
    """What runs: Deployments, StatefulSets, Jobs, HPAs, ScaledObjects of KEDA, as ordinary Kubernetes objects."""

    objects: Annotated[tuple[KubernetesObject, ...], FromList] = parts("Kubernetes objects.", max_length=10_000)
    files: Names = parts("Files, folders and patterns, relative to this file.", max_length=256)
    tasks: Annotated[tuple[Task, ...], FromList] = parts(
        "What pods of Jobs and CronJobs among them do. Of others they run for a minute.", max_length=1000
    )


class SchedulerSpec(Part):
    """The scheduler's profiles, in kube-scheduler's own words. All of them belong to one scheduler."""

    configuration: FreeForm | None = option(None, "A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).")
    file: str = option("", "A file that holds one, relative to this file.", max_length=4096)
