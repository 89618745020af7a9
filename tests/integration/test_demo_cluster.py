"""`make demo-cluster`: it shows what it says it shows, and says what to build where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def demo(repository: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(repository / "tests" / "integration" / "demo_cluster.py")],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.rig
@pytest.mark.slow
def test_the_bookshop_s_pods_are_placed_by_its_profile_beside_kube_scheduler_s(
    rig: Path, kwok: Path, repository: Path, tmp_path: Path
) -> None:
    """The Jobs packed, the storefront placed by kube-scheduler, the profile ready, and nothing left behind."""
    done = demo(repository, tmp_path, STOWPLAN_BUILD=str(kwok.parent.parent))
    assert done.returncode == 0, done.stderr + done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["NODE", "batch-packer", "default-scheduler"] in lines
    assert "The Jobs fill one batch node before they open the next: 7 + 3 + 0." in done.stdout
    header = next(line for line in lines if line[:2] == ["NAME", "SCHEDULER"])
    row = dict(zip(header, next(line for line in lines if line[:2] == ["batch-packer"] * 2), strict=True))
    assert (row["MODE"], row["READY"], row["PENDING"], row["STRATEGY"]) == ("Active", "True", "0", "MostAllocated")
    assert 'scheduler_schedule_attempts_total{profile="batch-packer",result="scheduled"} 10' in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_the_programs_it_says_how_to_build_them(repository: Path, tmp_path: Path) -> None:
    """Exit code 3; nothing is started."""
    done = demo(repository, tmp_path, STOWPLAN_BUILD=str(tmp_path))
    assert done.returncode == 3
    assert "not built: rig, kwok" in done.stderr
    assert "tests/conformance/build.sh rig kwok" in done.stderr
    assert done.stdout == ""
