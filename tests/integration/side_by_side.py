"""Does the same to the real control plane and to ours, and insists that both come out the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from integration.kube_api import Answer, Manifest
from integration.manifests import simple_pod
from integration.sides import RealSide, Side, VirtualSide
from stowplan_scheduler.quantity import parse_quantity

T = TypeVar("T")

TO_REST: Final = 2.0
"""Seconds of virtual time in which our controllers have done all that they are going to do soon."""

PATIENCE: Final = 60.0
"""Seconds of real time that the real controllers have to come to the same; they need one or two on a quiet machine."""

STAYS: Final = 0.2
"""Seconds of real time that they must stay there."""

_GENERATED: Final = re.compile(r"\b([a-z]+)-[a-z0-9]+-[a-z0-9]{5}\b")
_HASHED: Final = re.compile(r'(?<=ReplicaSet ")([a-z]+)-[a-z0-9]+(?=")')


class Outcome(NamedTuple):
    """What is compared of an answer."""

    code: int
    message: str
    causes: tuple[str, ...] = ()
    retry_after: int = 0
    pod: Manifest | None = None
    """What admission made of a pod."""


class Both:
    """A namespace of each side. What differs is an AssertionError with both."""

    def __init__(self, real: RealSide, ours: VirtualSide) -> None:
        self.real = real
        self.ours = ours
        self.namespace = real.namespace
        self._pods: dict[int, list[str]] = {id(real): [], id(ours): []}
        self._classes: list[str] = []

    @property
    def sides(self) -> tuple[Side, Side]:
        """The real one, ours."""
        return self.real, self.ours

    def create(self, manifest: Manifest) -> Outcome:
        """Create an object on both sides; the same answer is expected."""
        return self.same(lambda side: outcome(side.create(manifest)), f"creating {manifest['metadata']['name']}")

    def create_all(self, manifests: Iterable[Manifest]) -> dict[str, Outcome]:
        """Create objects in turn on both sides; the answers by name."""
        made = [(each["metadata"]["name"], *(outcome(side.create(each)) for side in self.sides)) for each in manifests]
        real, ours = ({name: answers[place] for name, *answers in made} for place in (0, 1))
        _insist(real, ours, "creating one after the other")
        return real

    def create_classes(self, *classes: Manifest) -> None:
        """Create priority classes on both sides, and wait until the real admission knows them."""
        for each in classes:
            self.create(each)
            name = name_of(each)
            self._classes.append(name)
            plain = {} if each.get("globalDefault") else {"priorityClassName": name}
            self._until_admitted(plain, lambda spec, name=name: spec.get("priorityClassName") == name)  # type: ignore[misc]

    def delete_classes(self) -> None:
        """Delete the priority classes of this test, and wait until the real admission has forgotten them."""
        while self._classes:
            name = self._classes.pop()
            self.each(lambda side, name=name: side.delete("PriorityClass", name))  # type: ignore[misc]
            self._until_admitted({}, lambda spec, name=name: spec.get("priorityClassName") != name)  # type: ignore[misc]

    def _until_admitted(self, spec: Manifest, is_known: Callable[[Manifest], bool]) -> None:
        pod = simple_pod("rehearsal", {"cpu": "1"}, {"cpu": "1"}, **spec)
        self.real.wait(lambda: is_known(self.real.rehearse(pod).body.get("spec", {})), PATIENCE)

    def counted(self, doing: str) -> dict[str, Manifest]:
        """The status of all quotas, once it is the same and the real admission knows it."""
        found = self.settled(quotas, doing)
        self.real.catch_up()
        return found

    def each(self, action: Callable[[Side], object]) -> None:
        """Do something to both."""
        for side in self.sides:
            action(side)

    def same(self, view: Callable[[Side], T], doing: str) -> T:
        """What both sides answer alike."""
        real, ours = map(view, self.sides)
        _insist(real, ours, doing)
        return real

    def settled(self, view: Callable[[Side], T], doing: str) -> T:
        """What both sides come to, and stay at: ours after `TO_REST`, the real one within `PATIENCE`."""
        self.ours.wait(lambda: False, TO_REST)
        wanted = view(self.ours)
        self.real.wait(lambda: view(self.real) == wanted, PATIENCE)
        self.real.wait(lambda: view(self.real) != wanted, STAYS)
        _insist(view(self.real), wanted, doing)
        return wanted

    def pod(self, side: Side, number: int) -> str:
        """The name of a pod by the order in which pods were first asked for; those made together are in no order."""
        known = self._pods[id(side)]
        known += [name for name in map(name_of, side.list("Pod")) if name not in known]
        return known[number]

    def report(self, *numbers: int, phase: str = "Running", ready: bool = True) -> None:
        """Make pods Running and Ready, or something else."""
        for side in self.sides:
            for number in numbers:
                side.report(self.pod(side, number), phase=phase, ready=ready)

    def evict(self, number: int, **options: Any) -> Outcome:
        """Evict a pod; the same answer is expected."""
        return self.same(lambda side: outcome(side.evict(self.pod(side, number), **options)), f"evicting {number}")


def _insist(real: Any, ours: Any, doing: str) -> None:
    __tracebackhide__ = True
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted({*real, *ours})
        different = [key for key in keys if real.get(key) != ours.get(key)]
        real, ours = ({key: each.get(key) for key in different} for each in (real, ours))
    assert real == ours, f"after {doing} the two differ\nreal: {real}\nours: {ours}"


# ---- what is compared ------------------------------------------------------------------------------------------------


def name_of(obj: Manifest) -> str:
    """metadata.name."""
    return str(obj["metadata"]["name"])


def outcome(answer: Answer) -> Outcome:
    """The comparable part of an answer; several complaints in one message are in no order upstream."""
    pod = admitted(answer.body) if answer.body.get("spec", {}).get("containers") else None
    is_success = answer.is_success
    return Outcome(
        200 if is_success else answer.code, in_order(answer.message), tuple(answer.causes), answer.retry_after, pod
    )


def in_order(message: str) -> str:
    """A message with its list of complaints sorted, and without what is random in generated names."""
    head, bracket, tail = without_chance(message).partition("[")
    return head + bracket + ", ".join(sorted(tail.removesuffix("]").split(", "))) if bracket else head


def without_chance(text: str) -> str:
    """A message without the random part of generated names."""
    return _HASHED.sub(r"\1-#", _GENERATED.sub(r"\1-#-#", text))


def admitted(pod: Manifest) -> Manifest:
    """What admission decides about a pod: resources, priority, tolerations."""
    spec = pod["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    tolerations = [(each.get("key"), each.get("effect"), each.get("tolerationSeconds")) for each in spec["tolerations"]]
    return {
        "annotation": pod["metadata"].get("annotations", {}).get("kubernetes.io/limit-ranger", ""),
        "containers": {each["name"]: resources(each.get("resources")) for each in containers},
        "resources": resources(spec.get("resources")),
        "priority": spec.get("priority", 0),
        "priorityClassName": spec.get("priorityClassName", ""),
        "preemptionPolicy": spec.get("preemptionPolicy"),
        "tolerations": sorted(tolerations),
    }


def resources(given: Manifest | None) -> dict[str, dict[str, int]]:
    """Requests and limits in nano units: "1000m" is "1"."""
    return {
        part: {name: parse_quantity(amount) for name, amount in (given or {}).get(part, {}).items()}
        for part in ("requests", "limits")
    }


def quotas(side: Side) -> dict[str, Manifest]:
    """Hard and used of every quota, as they are written."""
    return {
        name_of(each): {part: each.get("status", {}).get(part, {}) for part in ("hard", "used")}
        for each in side.list("ResourceQuota")
    }


def workloads(side: Side) -> dict[str, list[Manifest]]:
    """The status of Deployments and ReplicaSets, and the number of pods."""
    found = {kind: [_workload(each) for each in side.list(kind)] for kind in ("Deployment", "ReplicaSet")}
    # Generated names are in no order.
    return {**{kind: sorted(each, key=repr) for kind, each in found.items()}, "Pod": [{"count": len(side.list("Pod"))}]}


def _workload(obj: Manifest) -> Manifest:
    status = obj.get("status", {})
    counts = {name: count for name, count in status.items() if name.endswith("eplicas") and count}
    conditions = [
        (each["type"], each["status"], each.get("reason", ""), without_chance(each.get("message", "")))
        for each in status.get("conditions", ())
    ]
    return {
        "wanted": obj["spec"].get("replicas", 1),
        **counts,
        "isObserved": status.get("observedGeneration") == obj["metadata"].get("generation"),
        "conditions": sorted(conditions),
    }


def budgets(side: Side) -> dict[str, Manifest]:
    """The status of every disruption budget; of the pods that were evicted just now the number."""
    return {name_of(each): _budget(each) for each in side.list("PodDisruptionBudget")}


def _budget(budget: Manifest) -> Manifest:
    status = budget.get("status", {})
    numbers = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    return {
        **{name: status.get(name, 0) for name in numbers},
        "isObserved": status.get("observedGeneration") == budget["metadata"].get("generation"),
        "disruptedPods": len(status.get("disruptedPods") or ()),
        "conditions": [
            (each["type"], each["status"], each.get("reason", ""), without_chance(each.get("message", "")))
            for each in status.get("conditions", ())
        ],
    }
