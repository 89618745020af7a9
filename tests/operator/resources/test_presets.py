"""The profiles and pools that ship as examples are good, and do what their comments say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan_autoscaling.resources.load import load_simulation
from stowplan_operator.resources import SchedulerProfile, compile_profile, profile_hash, read_profile
from stowplan_operator.resources.differences import Effective, differences, of_configuration, of_profile
from stowplan_operator.resources.node_pool import NodePool, as_simulated

PRESETS = ("spread", "pack", "pack-gpu")
PLUGINS = "plugins.score"


def preset(repository: Path, name: str) -> SchedulerProfile:
    path = repository / "examples/profiles" / f"{name}.yaml"
    return read_profile(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def default() -> Effective:
    (found,) = of_configuration({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_compiles_and_is_called_as_its_file(repository: Path, name: str) -> None:
    profile = preset(repository, name)
    assert compile_profile(profile)["schedulerName"] == profile.name == name
    assert not profile.spec.extenders


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_explained(repository: Path, name: str) -> None:
    """What it does, why, and when not."""
    text = (repository / "examples/profiles" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}: ")
    for heading in ("# What it does beside the default profile", "# Why: ", "# When not: "):
        assert heading in text


def changes(repository: Path, name: str, default: Effective) -> dict[str, tuple[Any, Any]]:
    found = differences(default, of_profile(preset(repository, name)), running=False)
    return {each.field: (each.before, each.after) for each in found if each.field != "schedulerName"}


def test_spread_differs_from_the_default_in_spreading_alone(repository: Path, default: Effective) -> None:
    found = changes(repository, "spread", default)
    assert found.pop("weights.PodTopologySpread") == (2, 5)
    assert found.pop("args.PodTopologySpread.defaultingType") == ("System", "List")
    _, constraints = found.pop("args.PodTopologySpread.defaultConstraints")
    assert [(each["topologyKey"], each["maxSkew"]) for each in constraints] == [
        ("topology.kubernetes.io/zone", 1),
        ("kubernetes.io/hostname", 1),
    ]
    assert found == {}


def test_pack_differs_from_the_default_in_what_its_comment_lists(repository: Path, default: Effective) -> None:
    found = changes(repository, "pack", default)
    before, after = found.pop(PLUGINS)
    assert set(before) - set(after) == {"NodeResourcesBalancedAllocation"}
    assert found == {
        "percentageOfNodesToScore": (0, 100),
        "weights.NodeResourcesFit": (1, 10),
        "weights.NodeResourcesBalancedAllocation": (1, None),
        "args.NodeResourcesFit.scoringStrategy.type": ("LeastAllocated", "MostAllocated"),
        "args.PodTopologySpread.defaultingType": ("System", "List"),
    }


def test_pack_gpu_scores_gpus_five_times_and_images_three_times(repository: Path, default: Effective) -> None:
    found = changes(repository, "pack-gpu", default)
    assert found["args.NodeResourcesFit.scoringStrategy.resources[nvidia.com/gpu].weight"] == (None, 5)
    assert found["weights.ImageLocality"] == (1, 3)
    assert found["weights.NodeResourcesFit"] == (1, 10)
    assert "NodeResourcesBalancedAllocation" not in found[PLUGINS][1]


def test_the_bookshop_s_profile_is_the_one_that_its_simulation_runs(repository: Path) -> None:
    folder = repository / "examples/bookshop"
    profile = read_profile(yaml.safe_load((folder / "profile.yaml").read_text(encoding="utf-8")))
    simulated = of_configuration(yaml.safe_load((folder / "profiles.yaml").read_text(encoding="utf-8")))
    (same,) = (each for each in simulated if each.scheduler_name == "batch-packer")
    assert differences(same, of_profile(profile), running=False) == []
    assert profile.name == profile.spec.scheduler_name == "batch-packer"


def test_the_bookshop_s_pools_are_those_of_its_simulation(repository: Path) -> None:
    folder = repository / "examples/bookshop"
    documents = yaml.safe_load_all((folder / "node-pools.yaml").read_text(encoding="utf-8"))
    pools = [NodePool.model_validate(document) for document in documents]
    spec = load_simulation(str(folder / "simulation.yaml")).spec
    assert [as_simulated(pool) for pool in pools] == list(spec.node_pools)
    assert tuple(machine for pool in pools for machine in pool.spec.machines) == spec.instance_types
    assert pools[1].spec.provider == spec.provider


def test_presets_have_hashes_of_their_own(repository: Path) -> None:
    assert len({profile_hash(preset(repository, name).spec) for name in PRESETS}) == len(PRESETS)
