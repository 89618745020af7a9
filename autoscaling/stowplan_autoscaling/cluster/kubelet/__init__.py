"""A model of the kubelet: what happens to a pod between its binding and its removal, and when.

`Kubelets` watches pods and nodes of the virtual cluster and writes what the kubelets of Kubernetes v1.37.2 would write,
when they would. What they are told is in `KubeletConfig` and `ImageCatalog`; what containers do, in `ApplicationModel`.
The page docs/architecture/kubelet.md has the table of states and what is left out.
"""

from .allocatable import EVICTION_HARD, allocatable
from .application import ApplicationModel, ContainerModel, Probe, probe_of
from .config import ImageCatalog, KubeletConfig
from .delays import NO_DELAY, Delay, fixed, log_normal, uniform
from .kubelets import ContainerListener, Kubelets
from .timeline import PodTimeline, WaitingTime

__all__ = [
    "EVICTION_HARD",
    "NO_DELAY",
    "ApplicationModel",
    "ContainerListener",
    "ContainerModel",
    "Delay",
    "ImageCatalog",
    "KubeletConfig",
    "Kubelets",
    "PodTimeline",
    "Probe",
    "WaitingTime",
    "allocatable",
    "fixed",
    "log_normal",
    "probe_of",
    "uniform",
]
