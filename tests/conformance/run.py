"""Compares our answers with the recorded ones of the real scheduler and controllers and prints a table by tag.

    python tests/conformance/run.py [--mode MODE]... [--shared] [--tag T] [--limit N]

The modes evaluate, run and config ask ``python -m stowplan_scheduler.conformance``. Their recorded answers are those
under ``golden/``; with ``--shared`` those of ``$STOWPLAN_SHARED/conformance``. A scenario of theirs may be left
unanswered only if a pod of it uses volumes, resource claims or a resource that a device class serves; whether one does
is read off the scenario here, not believed.

The modes hpa, cluster and workloads ask ``python -m stowplan_autoscaling.conformance``; every scenario of theirs must
be answered. The answers of workloads are under ``golden/``, those of hpa, cluster and the supply modes in the shared
folder; where that is absent, these are left out with a note, unless they are asked for by name.

The modes karpenter and cluster-autoscaler ask it, too, and are judged by the shared folder's own comparer, which knows
where upstream itself has several answers.

Exit codes: 0 nothing differs and nothing else is left unanswered, 1 otherwise, 2 bad use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # as a program it has only its own folder on the path

from support.recorded import comparer  # noqa: E402

SCHEDULER_MODES = ("evaluate", "run", "config")
CONTROLLER_MODES = ("hpa", "cluster", "workloads")
SUPPLY_MODES = ("karpenter", "cluster-autoscaler")
MODES = SCHEDULER_MODES + CONTROLLER_MODES + SUPPLY_MODES
SHARED_ONLY = {
    "hpa": ("hpa/hpa.jsonl.gz", "hpa/vectors.jsonl.gz"),
    "cluster": ("cluster/cluster.jsonl.gz",),
    "karpenter": ("karpenter/provisioning.jsonl.gz", "karpenter/disruption.jsonl.gz"),
    "cluster-autoscaler": ("cluster-autoscaler/scale-up.json.gz", "cluster-autoscaler/scale-down.json.gz"),
}
"""Modes whose recorded answers are too big to be carried: the files below the shared folder's ``conformance``."""

WIDTH = 34  # of the column of tags

UNDECIDED_SOURCES = frozenset(
    {
        "persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi", "cinder",
        "azureDisk", "azureFile", "vsphereVolume", "portworxVolume",
    }
)  # fmt: skip
"""Sources of volumes that some rule of the scheduler looks at."""

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


# ---- which scenarios may be left unanswered --------------------------------------------------------------------------


def may_be_left_out(scenario: Mapping[str, Any]) -> bool:
    """Whether a pod of the scenario uses volumes, resource claims or a resource that a device class serves."""
    served = _served_resources(scenario)
    return any(_uses_volumes_or_devices(pod.get("spec") or {}, served) for pod in _pods(scenario))


def _pods(scenario: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (scenario.get("objects") or {}).get("pods") or ()
    yield from scenario.get("nominated") or ()
    if scenario.get("pod"):
        yield scenario["pod"]
    for step in scenario.get("steps") or ():
        if step["kind"] == "Pod":
            yield step["object"]


def _served_resources(scenario: Mapping[str, Any]) -> frozenset[str]:
    """The extended resources that device classes name; every class serves one under its own name, too."""
    found = set()
    for device_class in (scenario.get("objects") or {}).get("deviceClasses") or ():
        found.add(DEVICE_CLASS_PREFIX + device_class["metadata"]["name"])
        found.add((device_class.get("spec") or {}).get("extendedResourceName") or "")
    return frozenset(found)


def _uses_volumes_or_devices(spec: Mapping[str, Any], served: frozenset[str]) -> bool:
    if spec.get("resourceClaims"):
        return True
    if any(UNDECIDED_SOURCES & set(volume) for volume in spec.get("volumes") or ()):
        return True
    return any(_names_of_resources(container) & served for container in _containers(spec))


def _containers(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))


def _names_of_resources(container: Mapping[str, Any]) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or ()), *(resources.get("limits") or ())}


# ---- comparing -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """One mode's report of the comparer, and the scenarios that were left unanswered without need."""

    mode: str
    report: Any
    needless: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing differs, is missing or was needlessly left out."""
        return bool(self.report.ok(allow_unsupported=self.report.total)) and not self.needless


def golden_path(mode: str, shared: Path | None) -> Path:
    """The recorded answers of a mode that has one file; the shared folder keeps them in folders by subject."""
    if shared is None or mode == "workloads":
        return HERE / "golden" / ("config.jsonl" if mode == "config" else f"{mode}.jsonl.gz")
    folder = shared / "conformance"
    return folder / "config/config.jsonl" if mode == "config" else folder / f"scheduler/{mode}.jsonl.gz"


def golden_paths(mode: str, shared: Path | None) -> list[Path]:
    """All files of a mode. Raises FileNotFoundError if they are in the shared folder only and that is absent."""
    if mode not in SHARED_ONLY:
        return [golden_path(mode, shared)]
    folder = shared or shared_folder()
    if not folder.is_dir():
        message = f"{mode}: its recorded answers are in the shared folder, and {folder} is absent; set STOWPLAN_SHARED"
        raise FileNotFoundError(message)
    return [folder / "conformance" / name for name in SHARED_ONLY[mode]]


def our_command(mode: str) -> list[str]:
    """What answers the scenarios of a mode on our side."""
    package = "stowplan_scheduler" if mode in SCHEDULER_MODES else "stowplan_autoscaling"
    return [sys.executable, "-m", f"{package}.conformance", mode]


def comparer_mode(mode: str) -> str:
    """The comparer has no mode for workloads of its own: they are cluster scenarios with other controllers."""
    return "cluster" if mode == "workloads" else mode


def compare_mode(mode: str, path: Path, tag: str | None = None, limit: int | None = None) -> Comparison:
    """Answer a mode's scenarios in one process and compare. Raises OSError, ValueError for an unusable file."""
    cases = comparer().load(path, comparer_mode(mode), tag, None, limit)
    if not cases:
        raise ValueError(f"{path}: no scenarios selected")
    scenarios = {case.id: case.scenario for case in cases}
    report = comparer().check(comparer_mode(mode), cases, our_command(mode))
    excused = mode in SCHEDULER_MODES
    needless = [(name, what) for name, what in report.unsupported if not (excused and may_be_left_out(scenarios[name]))]
    return Comparison(mode, report, needless)


def compare_supply(mode: str, path: Path, limit: int | None = None) -> bool:
    """Have the shared comparer ask us and print what it finds; whether nothing is different or left unanswered."""
    command = [sys.executable, str(path.parents[1] / "compare_supply.py"), mode, str(path)]
    if limit is not None:
        command += ["--limit", str(limit)]
    return subprocess.run([*command, "--", *our_command(mode)], check=False).returncode == 0


# ---- printing --------------------------------------------------------------------------------------------------------


def print_table(comparison: Comparison) -> None:
    """Rows by tag; a scenario has several tags, so the rows add up to more than the summary line."""
    report = comparison.report
    print(f"{comparison.mode:{WIDTH}s} scenarios identical different unsupported")
    for tag, counts in sorted(report.by_tag.items()):
        print(_row(tag, sum(counts.values()), counts["identical"], counts["different"], counts["unsupported"]))
    print(_row("(all)", report.total, report.identical, len(report.different), len(report.unsupported)))
    comparer().print_report(report)
    for name, what in comparison.needless[:5]:
        print(f"{name}: left out for {what}, which is no reason here")
    print(report.summary(comparison.mode), flush=True)


def _row(tag: str, scenarios: int, identical: int, different: int, unsupported: int) -> str:
    return f"{tag:{WIDTH}s} {scenarios:9d} {identical:9d} {different:9d} {unsupported:11d}"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=MODES, action="append", help="may be repeated (default: all)")
    parser.add_argument("--shared", action="store_true", help="the answers of $STOWPLAN_SHARED/conformance")
    parser.add_argument("--tag", help="only scenarios with this tag")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N scenarios of each mode")
    return parser.parse_args(argv)


def shared_folder() -> Path:
    """``STOWPLAN_SHARED``, by default ``shared`` beside the repository."""
    return Path(os.environ.get("STOWPLAN_SHARED") or HERE.parents[2] / "shared")


def main(argv: list[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    options = parse(argv)
    shared = shared_folder() if options.shared else None
    ok = True
    for mode in options.mode or MODES:
        try:
            paths = golden_paths(mode, shared)
        except FileNotFoundError as absent:
            print(f"run.py: {absent}", file=sys.stderr)
            if options.mode:
                return 2
            continue
        for path in paths:
            if mode in SUPPLY_MODES:
                print(f"{path.name}:", flush=True)
                ok &= compare_supply(mode, path, options.limit)
                print()
                continue
            try:
                comparison = compare_mode(mode, path, options.tag, options.limit)
            except (OSError, ValueError) as failure:
                print(f"run.py: {failure}", file=sys.stderr)
                return 2
            print(f"{path.name}:")
            print_table(comparison)
            print()
            ok &= comparison.ok
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
