"""200 pods and no node: real kube-scheduler and real Karpenter with kwok's machines, then 80 pods are left.

Which pods the scheduler puts where hangs on when nodes come up: before the scheduler tries its pods again, and all at
once, or meanwhile. So do whether all pods find a place on the first machines, and what consolidation finds later. The
prediction is what comes out over the seeds, and over several paces of the machines.
"""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from integration.control_plane import CONTROLLER_MANAGER, SCHEDULER, ControlPlane
from integration.kube_api import KubeApi, sure
from live.comparison import Band, Row, Step, compare_time, compare_value, steps_of, value_at
from live.peers import KARPENTER, Certificates, Peers
from live.prediction import SCENARIOS, Table, manifests, predict, table, write_catalogue, write_scale_in

NAME: Final = "karpenter"
SCALE_IN: Final = 20
"""Seconds after which 40 pods of each Deployment are left."""
LEFT: Final = 40
DURATION: Final = 180.0

CLIENT_FLAGS: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")
"""As spec.controllers of the scenario: the limits of clients are no subject here."""

TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
DISRUPTED: Final = "karpenter.sh/disrupted"

PODS: Final = 200

PACES: Final = ("600ms", "1s", "2s")
"""Medians of the time from the request for a machine to its Node, spec.provider.boot. Nobody knows it beforehand: it is
some requests to the API server, and Karpenter's own second look. Seeds take turns with them."""

FIRST_ROUND: Final = Band(1, 12)
"""The batch closes a second after the last pod came, ten seconds after the first at the latest; and the pods must be
made, the machines asked for."""
RUNNING: Final = Band(2, 35)
"""Nodes come, pods are placed; those that find no place ask again after ten seconds at the latest, in a batch of one to
ten seconds."""
EMPTIED: Final = Band(SCALE_IN, SCALE_IN + 60)
"""Up to ten seconds until the disruption loop looks and fifteen before it validates what it found. Before that, up to
two commands that were found before the scale-in (by the methods for several nodes and for one) wait and fail, fifteen
seconds each; the five seconds of quiet pass meanwhile. And five for the work itself."""

COMPUTED: Final = "computed new nodeclaim(s) to fit pod(s)"
"""What Karpenter's log says of a round."""

_PERIOD: Final = 0.5


class Story(NamedTuple):
    """What happened, in numbers that both sides have. Times are seconds from the creation of the Deployments.

    first_types: machines of the first round, as text. first_round, running: when the first claim was made, when all 200
    pods ran. nodes_running, nodes_end: nodes at that moment, and at the end. emptied: when, after the scale-in, the
    first node was tainted to be emptied. nodes: their number over time.
    """

    first_types: str
    first_round: float
    running: float
    nodes_running: int
    emptied: float
    nodes_end: int
    nodes: list[Step]


class Sample(NamedTuple):
    """One reading."""

    seconds: float
    pods: int
    running: int
    claims: int
    nodes: int
    disrupted: int
    types: str


# ---- prediction ----------------------------------------------------------------------------------------------------


def predicted(results: Path, seeds: Sequence[int]) -> list[Story]:
    """The story of each seed."""
    folder = results / "scenario"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SCENARIOS / "batch.yaml", folder / "batch.yaml")
    write_catalogue(folder / "kwok-instance-types.json")
    write_scale_in(folder / "scale-in.sktrace", manifests("batch.yaml"), LEFT, SCALE_IN)
    text = (SCENARIOS / f"{NAME}.yaml").read_text(encoding="utf-8")
    if f"median: {PACES[0]}" not in text:
        raise ValueError(f"{NAME}.yaml: spec.provider.boot.median: must be {PACES[0]}")
    folders = []
    for number, pace in enumerate(PACES):
        path = folder / f"{NAME}-{pace}.yaml"
        path.write_text(text.replace(f"median: {PACES[0]}", f"median: {pace}"), encoding="utf-8")
        folders += predict(path, results / "prediction", seeds[number :: len(PACES)])
    return [story_of(table(each, "nodes.csv"), table(each, "pods.csv")) for each in folders]


def story_of(nodes: Table, pods: Table) -> Story:
    """From the tables of a run."""
    first = min(float(row["requested"]) for row in nodes)
    running = max(float(row["ready"]) for row in pods if row["ready"] and float(row["created"]) < SCALE_IN)
    changes = [(float(row["registered"]), 1) for row in nodes if row["registered"]]
    changes += [(float(row["ended"]), -1) for row in nodes if row["ended"]]
    count, samples = 0, []
    for seconds, change in sorted(changes):
        count += change
        samples.append((seconds, count))
    steps = steps_of(samples)
    emptied = [float(row["disrupted"]) for row in nodes if row["disrupted"] and float(row["disrupted"]) >= SCALE_IN]
    return Story(
        shown(Counter(row["instance_type"] for row in nodes if float(row["requested"]) == first)),
        first,
        running,
        value_at(steps, running),
        min(emptied, default=DURATION),
        steps[-1].value,
        steps,
    )


def shown(types: Counter[str]) -> str:
    """Machines by type, as text."""
    return ", ".join(f"{count} × {name.removesuffix('-amd64-linux')}" for name, count in sorted(types.items()))


# ---- observation ---------------------------------------------------------------------------------------------------


def observe(program: Path, programs: Path, certificates: Certificates, folder: Path) -> Story:
    """Let it happen. Raises ControlPlaneError, OSError, RefusedError."""
    components = (CONTROLLER_MANAGER, SCHEDULER)
    flags = dict.fromkeys(components, CLIENT_FLAGS)
    with (
        ControlPlane(program, folder / "control-plane", components=components, flags=flags) as plane,
        Peers(plane, programs, certificates) as peers,
        contextlib.closing(plane.api) as api,
    ):
        peers.start_kwok()
        peers.start_karpenter(manifests("nodepool.yaml"))
        watch = _Watch(api)
        watch.run()
    samples = watch.samples
    with (folder / "observation.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Sample._fields)
        writer.writerows(samples)
    with (folder / "control-plane" / f"{KARPENTER}.log").open(encoding="utf-8", errors="replace") as log:
        machines = first_round(log)
    return story_of_samples(samples, list(watch.types.values()), machines)


class _Watch:
    """Makes the pods, takes most of them away again, and writes down what happens.

    `types`: the instance type of each claim, in the order in which they were made.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.samples: list[Sample] = []
        self.types: dict[str, str] = {}

    def run(self) -> None:
        """One sample per reading."""
        deployments = manifests("batch.yaml")
        for each in deployments:
            sure(self._api.create(each))
        begun = time.monotonic()
        is_scaled = False
        while (seconds := time.monotonic() - begun) < DURATION:
            if seconds >= SCALE_IN and not is_scaled:
                for each in deployments:
                    sure(self._api.patch(each, {"spec": {"replicas": LEFT}}))
                is_scaled = True
            self.samples.append(self._sample(seconds))
            time.sleep(max(begun + len(self.samples) * _PERIOD - time.monotonic(), 0))

    def _sample(self, seconds: float) -> Sample:
        pods = self._api.all("v1", "Pod", "default")
        claims = self._all("/apis/karpenter.sh/v1/nodeclaims")
        for claim in sorted(claims, key=lambda each: str(each["metadata"]["creationTimestamp"])):
            # The type is a label of the claim once its machine is launched.
            name = claim["metadata"]["name"]
            self.types[name] = claim["metadata"].get("labels", {}).get(TYPE_LABEL) or self.types.get(name, "?")
        nodes = self._all("/api/v1/nodes")
        tainted = sum(any(t["key"] == DISRUPTED for t in each["spec"].get("taints") or ()) for each in nodes)
        types = Counter(each["metadata"]["labels"].get(TYPE_LABEL, "?") for each in nodes)
        running = sum((each.get("status") or {}).get("phase") == "Running" for each in pods)
        return Sample(round(seconds, 2), len(pods), running, len(claims), len(nodes), tainted, shown(types))

    def _all(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = sure(self._api.request("GET", path))["items"]
        return items


def story_of_samples(samples: Sequence[Sample], claims: Sequence[str], machines: int) -> Story:
    """From the readings, and the types of the claims in the order of making, of which the first round had so many."""
    first = next((each.seconds for each in samples if each.claims), DURATION)
    running = next((each for each in samples if each.running == PODS), None)
    emptied = (each.seconds for each in samples if each.seconds >= SCALE_IN and each.disrupted)
    return Story(
        shown(Counter(claims[:machines])),
        first,
        DURATION if running is None else running.seconds,
        0 if running is None else running.nodes,
        next(emptied, DURATION),
        samples[-1].nodes,
        steps_of((each.seconds, each.nodes) for each in samples),
    )


def first_round(log: Iterable[str]) -> int:
    """How many machines the first round of provisioning asked for, by Karpenter's log; 0 if there was none."""
    for line in log:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("message") == COMPUTED:
                return int(entry["nodeclaims"])
    return 0


# ---- both ----------------------------------------------------------------------------------------------------------


def compare(predictions: Sequence[Story], observed: Story) -> list[Row]:
    """Machines equal, times within the bands."""

    def times(name: str) -> list[float]:
        return [getattr(each, name) for each in predictions]

    return [
        compare_time("first round of provisioning", times("first_round"), observed.first_round, FIRST_ROUND),
        compare_value("machines of the first round", [s.first_types for s in predictions], observed.first_types),
        compare_time("all 200 pods run", times("running"), observed.running, RUNNING),
        compare_value("nodes when all run", [s.nodes_running for s in predictions], observed.nodes_running),
        compare_time("first node emptied after the scale-in", times("emptied"), observed.emptied, EMPTIED),
        compare_value(f"nodes after {DURATION:.0f} s", [s.nodes_end for s in predictions], observed.nodes_end),
    ]
