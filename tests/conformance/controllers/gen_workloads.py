"""Random scenarios of jobs, stateful sets, daemon sets and cron jobs for `controllers cluster`, reproducible.

    gen_workloads.py --seed 1 --count 60 > scenarios.jsonl
    gen_workloads.py --seed 1 --count 60 --kind jobs

Without --kind the kinds of KINDS take turns. Scenario i depends on the seed, i and --kind alone. Tags name the
features that a scenario uses. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

KINDS = ("jobs", "statefulSets", "daemonSets", "cronJobs", "mixed", "evictions")
ZONES = ("a", "b", "c")

Json = dict[str, Any]


def node(
    name: str, cpu: int, mem: int, zone: str, labels: Json | None = None, taints: list[Json] | None = None
) -> Json:
    amounts = {"cpu": str(cpu), "memory": f"{mem}Gi", "pods": "110"}
    made: Json = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, **(labels or {})},
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    if taints:
        made["spec"] = {"taints": taints}
    return made


def template(name: str, cpu: int, mem: int, **spec: Any) -> Json:
    container = {"name": "app", "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{mem}Mi"}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{**container, "image": "app"}], **spec}}


class Scenario:
    """Builds one scenario; every method adds one aspect and its tags."""

    def __init__(self, seed: str, number: int, kind: str) -> None:
        self.rng = random.Random(f"workloads:{seed}:{number}:{kind}")
        self.kind = kind
        self.id = f"{kind}-{seed}-{number:04d}"
        self.tags: set[str] = {kind}
        self.objects: Json = {}
        self.workloads: Json = {}
        self.script: list[Json] = []
        self.until = 0
        self.names = 0
        self.classes = False

    def chance(self, p: float, tag: str | None = None) -> bool:
        hit = self.rng.random() < p
        if hit and tag:
            self.tags.add(tag)
        return hit

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def between(self, a: int, b: int) -> int:
        return self.rng.randint(a, b)

    def moment(self, low: int = 20, high: int | None = None) -> float:
        """A time of a step, off all sampling instants."""
        return float(self.between(low, high or self.until - 60) + self.pick(0.1, 0.4, 0.7))

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def step(self, op: str, **fields: Any) -> None:
        self.tags.add(f"step:{op}" if "kind" not in fields else f"step:{op}-{fields['kind']}")
        self.script.append({"op": op, **fields, "t": round(fields["t"], 1)})

    # ---- what pods need and do ---------------------------------------------------------------------------------------

    def sizes(self) -> tuple[int, int]:
        return self.pick(100, 250, 500, 1000, 1500), self.pick(64, 128, 512, 1024)

    def pod(self) -> Json:
        spec: Json = {}
        if self.classes and self.chance(0.5):
            spec["priorityClassName"] = self.pick("low", "high")
        if self.chance(0.3):
            spec["terminationGracePeriodSeconds"] = self.pick(0, 1, 10, 60)
        if self.kind == "evictions":
            spec["tolerations"] = self.tolerations()
        return spec

    def tolerations(self) -> list[Json]:
        made: list[Json] = []
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "flood"):
            if self.chance(0.6, "toleration-seconds"):
                seconds = self.pick(5, 20, 60)
                made.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
            elif self.chance(0.15, "toleration"):
                made.append({"key": key, "operator": "Exists"})
        return made

    def kubelet(self, low: bool = False) -> Json:
        startup = self.pick(0.9, 3.3, 7.6) if low else self.pick(1.7, 4.2, 11.6, 28.3)
        return {"startup": startup, "ready": self.pick(0.8, 6.4, 19.2), "terminate": self.pick(0, 3.3, 12.9)}

    # ---- jobs --------------------------------------------------------------------------------------------------------

    def job_spec(self, name: str) -> Json:
        """A job's spec; how its pods end goes to the workloads under ``name``."""
        cpu, mem = self.sizes()
        pod = {"restartPolicy": "Never", **self.pod()}
        spec: Json = {"template": template(name, cpu, mem, **pod)}
        load: Json = {"run": self.pick(2.3, 9.1, 21.7, 44.4, 120.8)}
        indexed = self.chance(0.35, "indexed")
        if indexed:
            spec["completionMode"] = "Indexed"
        total = self.pick(1, 2, 3, 5, 8, 13)
        if indexed or self.chance(0.8, "completions"):
            spec["completions"] = total
        if self.chance(0.8):
            spec["parallelism"] = self.pick(1, 2, 3, 5, 9)
        if self.chance(0.35, "failures"):
            if self.chance(0.5):
                load["fail"] = sorted(self.rng.sample(range(1, 12), self.between(1, 5)))
            else:
                load["failEvery"] = self.pick(1, 2, 3)
        if indexed and self.chance(0.3, "failing-indexes"):
            load["failIndexes"] = sorted(self.rng.sample(range(total), self.between(1, min(3, total))))
            if self.chance(0.6, "per-index-limit"):
                spec["backoffLimitPerIndex"] = self.pick(0, 1, 2)
                if self.chance(0.4, "max-failed-indexes"):
                    spec["maxFailedIndexes"] = min(total, self.pick(0, 1, 2))
        if self.chance(0.5, "backoff-limit"):
            spec["backoffLimit"] = self.pick(0, 1, 2, 4)
        if self.chance(0.2, "deadline"):
            spec["activeDeadlineSeconds"] = self.pick(5, 17, 30, 75, 200)
        if self.chance(0.25, "ttl"):
            spec["ttlSecondsAfterFinished"] = self.pick(0, 7, 40)
        if self.chance(0.15, "replacement-failed"):
            spec["podReplacementPolicy"] = "Failed"
        if indexed and self.chance(0.2, "success-policy"):
            spec["successPolicy"] = {"rules": [{"succeededCount": self.between(1, total)}]}
        if self.chance(0.3, "own-kubelet"):
            load["kubelet"] = self.kubelet(low=True)
        self.workloads[name] = load
        return spec

    def job(self) -> None:
        name = self.name("job")
        made = {"metadata": {"name": name}, "spec": self.job_spec(name)}
        suspended = self.chance(0.12, "suspended")
        if suspended:
            made["spec"]["suspend"] = True
        if self.chance(0.3):
            self.step("create", kind="job", object=made, t=self.moment(high=self.until // 2))
            start = int(self.script[-1]["t"]) + 5
        else:
            self.objects.setdefault("jobs", []).append(made)
            start = 5
        if suspended:
            start = self.between(start, start + 60)
            self.step("suspend", kind="job", name=name, on=False, t=start + 0.4)
        if self.chance(0.12):
            t = self.between(start + 1, start + 60)
            self.step("suspend", kind="job", name=name, on=True, t=t + 0.7)
            self.step("suspend", kind="job", name=name, on=False, t=t + self.between(3, 90) + 0.7)
        if self.chance(0.12):
            self.step(
                "scale", kind="job", name=name, n=self.pick(0, 1, 2, 4, 8), t=self.between(start, start + 60) + 0.1
            )
        if self.chance(0.1):
            self.step("delete", kind="job", name=name, t=self.between(start, start + 150) + 0.4)

    def cron_job(self) -> None:
        name = self.name("cron")
        spec: Json = {
            "schedule": self.pick("* * * * *", "*/2 * * * *", "*/5 * * * *", "3-59/4 * * * *", "1,2,9 * * * *")
        }
        job = self.job_spec(name)
        if self.chance(0.7):
            job.pop("completions", None)
            job.pop("completionMode", None)
            for extra in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
                job.pop(extra, None)
            self.workloads[name].pop("failIndexes", None)
            job["parallelism"] = 1
        spec["jobTemplate"] = {"spec": job}
        policy = self.pick("Allow", "Forbid", "Replace", None)
        if policy:
            spec["concurrencyPolicy"] = policy
            self.tags.add(f"policy:{policy}")
        if self.chance(0.4, "history-limits"):
            spec["successfulJobsHistoryLimit"] = self.pick(0, 1, 2)
            spec["failedJobsHistoryLimit"] = self.pick(0, 1)
        if self.chance(0.3, "starting-deadline"):
            spec["startingDeadlineSeconds"] = self.pick(20, 100)
        made = {"metadata": {"name": name}, "spec": spec}
        if self.chance(0.3):
            self.step("create", kind="cronJob", object=made, t=self.moment(high=self.until // 2))
            start = int(self.script[-1]["t"]) + 5
        else:
            self.objects.setdefault("cronJobs", []).append(made)
            start = 5
        if self.chance(0.25):
            t = self.between(start, self.until - 100)
            self.step("suspend", kind="cronJob", name=name, on=True, t=t + 0.7)
            self.step("suspend", kind="cronJob", name=name, on=False, t=t + self.between(30, 300) + 0.7)
        if self.chance(0.1):
            self.step("delete", kind="cronJob", name=name, t=self.moment(low=start))

    # ---- stateful sets -----------------------------------------------------------------------------------------------

    def stateful_set(self) -> None:
        name = self.name("set")
        cpu, mem = self.sizes()
        pod = self.pod()
        if self.chance(0.2, "anti-affinity"):
            term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
            pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec: Json = {
            "replicas": self.pick(0, 1, 2, 3, 3, 5, 7),
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, cpu, mem, **pod),
        }
        if self.chance(0.4, "parallel"):
            spec["podManagementPolicy"] = "Parallel"
        if self.chance(0.25, "min-ready"):
            spec["minReadySeconds"] = self.pick(5, 20)
        if self.chance(0.2, "start-ordinal"):
            spec["ordinals"] = {"start": self.pick(1, 3)}
        kind = self.pick("RollingUpdate", "RollingUpdate", "partition", "maxUnavailable", "OnDelete")
        if kind == "OnDelete":
            spec["updateStrategy"] = {"type": "OnDelete"}
        elif kind != "RollingUpdate":
            value = self.between(1, 4) if kind == "partition" else self.pick(2, 3, "50%")
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {kind: value}}
        self.tags.add(f"update:{kind}")
        if self.chance(0.4, "own-kubelet"):
            self.workloads[name] = {"kubelet": self.kubelet(low=True)}
        made = {"metadata": {"name": name}, "spec": spec}
        start = 5
        if self.chance(0.2):
            self.step("create", kind="statefulSet", object=made, t=self.moment(high=self.until // 3))
            start = int(self.script[-1]["t"]) + 5
        else:
            self.objects.setdefault("statefulSets", []).append(made)
        for _ in range(self.pick(0, 1, 1, 2)):
            self.step("scale", kind="statefulSet", name=name, n=self.between(0, 8), t=self.moment(low=start))
        for _ in range(self.pick(0, 1, 1, 2)):
            self.step("rollout", kind="statefulSet", name=name, t=self.moment(low=start))
        if kind == "partition" and self.chance(0.6):
            self.step("partition", kind="statefulSet", name=name, n=self.pick(0, 1, 2), t=self.moment(low=start))
        if self.chance(0.08):
            self.step("delete", kind="statefulSet", name=name, t=self.moment(low=start))

    # ---- daemon sets -------------------------------------------------------------------------------------------------

    def daemon_set(self) -> None:
        name = self.name("daemon")
        pod = self.pod()
        if self.chance(0.3, "node-selector"):
            pod["nodeSelector"] = {"disk": "ssd"}
        if self.chance(0.3, "toleration"):
            pod.setdefault("tolerations", []).append({"key": "dedicated", "operator": "Exists"})
        cpu, mem = self.pick(50, 100, 100, 300, 900), self.pick(32, 64, 256)
        spec: Json = {"selector": {"matchLabels": {"app": name}}, "template": template(name, cpu, mem, **pod)}
        if self.chance(0.25, "min-ready"):
            spec["minReadySeconds"] = self.pick(5, 20)
        kind = self.pick("default", "maxUnavailable", "maxSurge", "OnDelete")
        if kind == "OnDelete":
            spec["updateStrategy"] = {"type": "OnDelete"}
        elif kind == "maxUnavailable":
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {kind: self.pick(2, 3, "30%", "50%")}}
        elif kind == "maxSurge":
            limits = {"maxSurge": self.pick(1, 2, "40%"), "maxUnavailable": 0}
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}
        self.tags.add(f"update:{kind}")
        self.workloads[name] = {}
        if self.chance(0.4, "own-kubelet"):
            self.workloads[name]["kubelet"] = self.kubelet(low=True)
        if self.chance(0.12, "pods-end"):  # a daemon pod that ends is made again, after a growing pause if it failed
            self.workloads[name].update({"run": self.pick(21.7, 66.3), "fail": self.rng.sample(range(1, 30), 12)})
        made = {"metadata": {"name": name}, "spec": spec}
        start = 5
        if self.chance(0.2):
            self.step("create", kind="daemonSet", object=made, t=self.moment(high=self.until // 3))
            start = int(self.script[-1]["t"]) + 5
        else:
            self.objects.setdefault("daemonSets", []).append(made)
        for _ in range(self.pick(0, 1, 1, 2)):
            self.step("rollout", kind="daemonSet", name=name, t=self.moment(low=start))
        if self.chance(0.08):
            self.step("delete", kind="daemonSet", name=name, t=self.moment(low=start))

    # ---- the rest ----------------------------------------------------------------------------------------------------

    def nodes(self) -> list[str]:
        names = []
        for i in range(self.pick(1, 2, 3, 4, 6, 8)):
            cpu, mem = self.pick((2, 4), (4, 8), (4, 16), (8, 16))
            labels = {"disk": "ssd"} if self.chance(0.6) else {}
            taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if self.chance(0.1, "taint") else None
            names.append(f"node-{i}")
            self.objects["nodes"].append(node(names[-1], cpu, mem, ZONES[i % 3], labels, taints))
        return names

    def node_steps(self, names: list[str], p: float) -> None:
        if self.chance(p):
            self.step("deleteNode", name=self.pick(*names), t=self.moment())
        if self.chance(p):
            late = node("late-0", 8, 16, "b", {"disk": "ssd"} if self.chance(0.5) else None)
            self.step("addNode", node=late, t=self.moment())
        if self.chance(p / 2):
            name, t = self.pick(*names), self.moment()
            self.step("cordon", name=name, t=t)
            self.step("uncordon", name=name, t=t + 90)
        if self.chance(p / 2):
            name, t = self.pick(*names), self.moment()
            effect = self.pick("NoSchedule", "PreferNoSchedule")
            taint = {"key": "dedicated", "value": "y", "effect": effect}
            self.step("taint", name=name, taint=taint, t=t)
            self.step("untaint", name=name, taint=taint, t=t + 100)
        if self.kind in {"daemonSets", "mixed"} and self.chance(p):
            self.step("label", name=self.pick(*names), labels={"disk": self.pick("ssd", "")}, t=self.moment())

    def bad_nodes(self, names: list[str], lifecycle: bool) -> None:
        """One node after another is tainted, reports that it is not ready, or falls silent."""
        t = float(self.between(30, 80))
        while t < self.until - 60:
            name, long = self.pick(*names), self.pick(4.2, 30.3, 70.7, 140.4)
            kind = self.pick("taint", "nodeReady", "nodeSilent") if lifecycle else "taint"
            if kind == "taint":
                taint = {"key": "flood", "effect": "NoExecute"}
                self.step("taint", name=name, taint=taint, t=t + 0.1)
                self.step("untaint", name=name, taint=taint, t=t + long)
            else:
                self.step(kind, name=name, on=kind == "nodeSilent", t=t + 0.4)
                self.step(kind, name=name, on=kind == "nodeReady", t=t + 0.4 + long)
            t += long + self.between(70, 150)

    def deployment(self) -> None:
        name = self.name("app")
        cpu, mem = self.sizes()
        self.objects["deployments"].append(
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": self.between(1, 6),
                    "selector": {"matchLabels": {"app": name}},
                    "template": template(name, cpu, mem, **self.pod()),
                },
            }
        )
        if self.chance(0.5):
            self.step("rollout", name=name, t=self.moment())

    def supply(self) -> Json:
        cpu, mem = self.pick((4, 8), (8, 16))
        return {
            "template": node("auto-", cpu, mem, "a", {"disk": "ssd"}),
            "max": self.pick(2, 5),
            "batch": self.pick(0.6, 2.1),
            "delay": self.pick(25.2, 47.4),
            "retry": self.pick(2.7, 10.9),
            "idle": self.pick(0, 61.7),
        }

    def build(self) -> Json:
        self.until = self.pick(300, 420, 600, 900)
        if self.kind == "cronJobs":
            self.until = self.pick(900, 1200, 1800)
        self.objects = {"nodes": [], "deployments": []}
        self.classes = self.chance(0.25, "priorities")
        if self.classes:
            low, high = {"metadata": {"name": "low"}, "value": 10}, {"metadata": {"name": "high"}, "value": 1000}
            self.objects["priorityClasses"] = [low, high]
        names = self.nodes()
        makers = {
            "jobs": self.job,
            "statefulSets": self.stateful_set,
            "daemonSets": self.daemon_set,
            "cronJobs": self.cron_job,
        }
        lifecycle = self.kind == "evictions" and self.chance(0.7, "node-lifecycle")
        if self.kind in {"mixed", "evictions"}:
            for make in (*makers.values(), self.deployment):
                if self.chance(0.7 if self.kind == "mixed" else 0.5):
                    make()
        else:
            for _ in range(self.pick(1, 1, 2, 3)):
                makers[self.kind]()
        if self.kind == "evictions":
            self.bad_nodes(names, lifecycle)
        self.node_steps(names, 0.3 if self.kind in {"daemonSets", "mixed"} else 0.12)
        made: Json = {
            "id": self.id,
            "objects": self.objects,
            "workloads": self.workloads,
            "kubelet": self.kubelet(),
            "metrics": {"interval": 60, "phase": 2, "delay": 0.3, "window": 15},
            "cycle": 0.001,
            "hpaStart": 20,
            "sample": self.pick(5, 10, 15),
            "until": self.until,
        }
        if self.kind == "evictions":
            made["nodeLifecycle" if lifecycle else "taintEviction"] = True
        if self.chance(0.3, "supply"):
            made["supply"] = self.supply()
        if self.script:
            made["script"] = sorted(self.script, key=lambda step: step["t"])
        made["tags"] = sorted(self.tags)
        return made


def main() -> None:
    """Prints the scenarios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--kind", choices=KINDS, help="only this kind")
    options = parser.parse_args()
    for number in range(options.count):
        kind = options.kind or KINDS[number % len(KINDS)]
        print(json.dumps(Scenario(options.seed, number, kind).build(), separators=(",", ":"), sort_keys=True))


if __name__ == "__main__":
    main()
