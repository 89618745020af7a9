"""Differences as a function: args of every sort by the fields that they have in YAML."""

from __future__ import annotations

from typing import Any

from stowplan_operator.resources.differences import Difference, differences, of_configuration, of_profile, paired
from stowplan_scheduler.config import PluginTraits
from support.profiles import Spec, profile

TRAITS = {"Other": PluginTraits.of("score")}


def found(first: Spec, second: Spec, *, running: bool = True) -> dict[str, tuple[Any, Any]]:
    sides = (of_profile(profile(**first), TRAITS), of_profile(profile(**second), TRAITS))
    return {each.field: (each.before, each.after) for each in differences(*sides, running=running)}


def other(args: Any) -> Spec:
    enabled = {"plugins": {"score": {"enabled": [{"name": "Other"}]}}}
    return {**enabled, "pluginConfig": [{"name": "Other", "args": args}]}


def test_args_of_other_plugins_are_compared_field_by_field() -> None:
    assert found(other({"a": 1, "b": {"c": [1]}}), other({"a": 2, "b": {"c": [1]}})) == {"args.Other.a": (1, 2)}
    assert found(other({"a": 1}), other({"a": True})) == {"args.Other.a": (1, True)}
    assert found(other({"a": 1}), other({"a": 1, "b": None, "c": 0})) == {"args.Other.c": (None, 0)}


def test_the_order_of_fields_is_no_difference_and_that_of_entries_is() -> None:
    assert found(other({"a": [{"x": 1, "y": 2}]}), other({"a": [{"y": 2, "x": 1}]})) == {}
    assert found(other({"a": [1, 2]}), other({"a": [2, 1]})) == {"args.Other.a": ([1, 2], [2, 1])}


def test_things_with_names_are_compared_by_name() -> None:
    first, second = ({"name": "x", "w": 1}, {"name": "y", "w": 2}), ({"name": "y", "w": 3}, {"name": "x", "w": 1})
    assert found(other({"a": list(first)}), other({"a": list(second)})) == {"args.Other.a[y].w": (2, 3)}
    twice = [{"name": "x", "w": 1}, {"name": "x", "w": 2}]
    assert found(other({"a": twice}), other({"a": twice[:1]})) == {
        "args.Other.a": (twice, None),
        "args.Other.a[x].w": (None, 1),
    }


def test_an_affinity_has_only_what_it_says() -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
    added = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    ((field, (before, after)),) = found({}, {"pluginConfig": [{"name": "NodeAffinity", "args": added}]}).items()
    path = "args.NodeAffinity.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    assert (field, before, after) == (path, None, terms)


def test_how_profiles_are_run_counts_only_if_asked_for() -> None:
    changed = {"rollout": {"mode": "Paused"}, "workers": {"replicas": 2}, "takeOver": True}
    assert found({}, changed) == {
        "rollout.mode": ("Active", "Paused"),
        "workers.replicas": (1, 2),
        "takeOver": (False, True),
    }
    assert found({}, changed, running=False) == {}


def test_profiles_are_paired_by_name_but_one_with_one_whatever_it_is_called() -> None:
    dense, sparse = of_profile(profile("dense")), of_profile(profile("sparse"))
    assert paired([dense], [sparse]) == [(dense, sparse)]
    assert paired([dense, sparse], [sparse]) == [(dense, None), (sparse, sparse)]
    assert paired([], [dense]) == [(None, dense)]
    assert differences(dense, sparse, running=True) == [Difference("schedulerName", "dense", "sparse")]


def test_the_percentage_of_the_whole_configuration_is_that_of_profiles_without_one() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"schedulerName": "dense"}, {"schedulerName": "sparse", "percentageOfNodesToScore": 0}]
    both = of_configuration({**head, "percentageOfNodesToScore": 30, "profiles": profiles})
    assert [each.fields["percentageOfNodesToScore"] for each in both] == [30, 0]
