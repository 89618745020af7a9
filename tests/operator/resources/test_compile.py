"""From SchedulerProfiles to KubeSchedulerConfiguration: what is written, and what is refused with which field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from integration.crd_cases import CASES, PROFILE, Case, manifest
from stowplan_operator.net import UrlRules, parse_network
from stowplan_operator.resources import (
    ProfileError,
    compile_group,
    compile_profile,
    profile_hash,
    read_profile,
)
from stowplan_operator.resources.spec_checks import spec_problems
from stowplan_operator.resources.url_checks import urls_in
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import RawArgs, load_configuration
from stowplan_scheduler.framework.interface import ScorePlugin, Scores
from support.profiles import Spec, problems_of, profile, said

FIT = "NodeResourcesFit"


def config(name: str, **args: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": name, "args": args}]}


def enabled(point: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"plugins": {point: {"enabled": list(entries)}}}


# ---- what is written -------------------------------------------------------------------------------------------------


def test_the_smallest_profile_is_the_default_one_under_another_name() -> None:
    assert compile_profile(profile()) == {"schedulerName": "dense"}


def test_a_profile_keeps_its_words_and_its_order() -> None:
    spec = yaml.safe_load("""
        percentageOfNodesToScore: 0
        plugins:
          multiPoint:
            enabled: [{name: NodeResourcesFit, weight: 10}, {name: ImageLocality}]
          score:
            disabled: [{name: NodeResourcesBalancedAllocation}, {name: ImageLocality, weight: 0}]
          filter: {}
          bind: {enabled: []}
        pluginConfig:
        - name: NodeResourcesFit
          args:
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: NodeResourcesFitArgs
            scoringStrategy: {type: MostAllocated}
        - name: SomebodyElses
          args: {of: [any, 1, {kind: 2}]}
    """)
    del spec["plugins"]["filter"]
    del spec["plugins"]["bind"]
    assert compile_profile(profile(**spec)) == {"schedulerName": "dense", **spec}


def test_the_short_form_of_the_strategy_becomes_the_args_of_the_plugin() -> None:
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu", "weight": 3}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    }
    document = compile_profile(profile(scoringStrategy=strategy))
    assert document["pluginConfig"] == [{"name": FIT, "args": {"scoringStrategy": strategy}}]


def test_how_it_is_run_is_no_part_of_the_scheduler_s_configuration() -> None:
    running: Spec = {"rollout": {"mode": "Paused"}, "workers": {"group": "batch", "replicas": 3}, "takeOver": True}
    assert compile_profile(profile(**running)) == {"schedulerName": "dense"}


def test_a_group_is_one_document_in_order_of_scheduler_names() -> None:
    document = compile_group([profile("sparse"), profile("dense", scoringStrategy={"type": "MostAllocated"})])
    assert [entry["schedulerName"] for entry in document["profiles"]] == ["dense", "sparse"]
    loaded = load_configuration(document)
    assert [entry.scheduler_name for entry in loaded.profiles] == ["dense", "sparse"]


def test_a_group_names_the_profile_whose_field_is_wrong() -> None:
    bad = profile("sparse", **enabled("score", {"name": "NodeName"}))
    with pytest.raises(ProfileError) as caught:
        compile_group([profile("dense"), bad])
    assert [problem.field for problem in caught.value.problems] == ["sparse: spec.plugins.score.enabled[0].name"]
    with pytest.raises(ProfileError) as caught:
        compile_group([bad])
    assert [problem.field for problem in caught.value.problems] == ["spec.plugins.score.enabled[0].name"]


def test_profiles_that_sort_the_queue_differently_are_no_group() -> None:
    explicit: Spec = {"plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}}
    with pytest.raises(ProfileError, match=r"queueSort: Invalid value.*must be the same for all profiles"):
        compile_group([profile("dense"), profile("sparse", **explicit)])


# ---- what is refused -------------------------------------------------------------------------------------------------

TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}

REFUSED = [
    (
        config(FIT, scoringStrategy={"type": "Foo"}),
        (
            'spec.pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Foo": supported values: '
            '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
        ),
    ),
    (
        config(FIT, scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}),
        (
            "spec.pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight "
            "of cpu not "
            "in valid range (0, 100]"
        ),
    ),
    (
        config(FIT, scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": "1"}]}),
        "spec.pluginConfig[0].args.scoringStrategy.resources[0].weight: must be an integer of 64 bits, got a string",
    ),
    (
        config(FIT, scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1.5}]}),
        "spec.pluginConfig[0].args.scoringStrategy.resources[0].weight: must be an integer of 64 bits, got 1.5",
    ),
    (
        config(FIT, scoringStrategy=[]),
        "spec.pluginConfig[0].args.scoringStrategy: must be a mapping, got a list",
    ),
    (
        config(FIT, scoringStrategy={"typ": "MostAllocated"}),
        "spec.pluginConfig[0].args.scoringStrategy.typ: unknown field; did you mean type?",
    ),
    (
        config(FIT, scoringStrategy={"type": "MostAllocated", "resources": [{"nam": "cpu"}]}),
        "spec.pluginConfig[0].args.scoringStrategy.resources[0].nam: unknown field; did you mean name?",
    ),
    (
        config("InterPodAffinity", hardPodAffinityWeight=101),
        "spec.pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    (
        config("InterPodAffinity", ignorePreferredTermsOfExistingPods="no"),
        "spec.pluginConfig[0].args.ignorePreferredTermsOfExistingPods: must be true or false, got a string",
    ),
    (
        config("PodTopologySpread", defaultConstraints={}),
        "spec.pluginConfig[0].args.defaultConstraints: must be a list, got a mapping",
    ),
    (
        config("PodTopologySpread", defaultConstraints=[{"maxSkew": 1, "topologyKey": "zone"}, []]),
        "spec.pluginConfig[0].args.defaultConstraints[1]: must be a mapping, got a list",
    ),
    (
        config("PodTopologySpread", defaultConstraints=[{"labelSelector": {"matchLabels": []}}]),
        "spec.pluginConfig[0].args.defaultConstraints[0].labelSelector.matchLabels: must be a mapping, got a list",
    ),
    (
        config("PodTopologySpread", defaultingType=7),
        "spec.pluginConfig[0].args.defaultingType: must be a string, got a number",
    ),
    (
        config("DynamicResources", filterTimeout=7),
        "spec.pluginConfig[0].args.filterTimeout: must be a string, got a number",
    ),
    (
        config(FIT, apiVersion="a/b/c"),
        "spec.pluginConfig[0].args.apiVersion: unexpected GroupVersion string: a/b/c",
    ),
    (
        config(FIT, apiVersion=7),
        "spec.pluginConfig[0].args.apiVersion: must be a string, got a number",
    ),
    (
        config(FIT, apiVersion="v1"),
        (
            'spec.pluginConfig[0].args.apiVersion: no kind "NodeResourcesFitArgs" is registered for version "v1" '
            'in scheme "pkg/runtime/scheme.go:111"'
        ),
    ),
    (
        config("PodTopologySpread", defaultConstraints=[{"maxSkew": 0, "topologyKey": "zone"}], defaultingType="List"),
        "spec.pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
    ),
    (
        config("DynamicResources", bindingTimeout="soon"),
        'spec.pluginConfig[0].args.bindingTimeout: time: invalid duration "soon"',
    ),
    (
        config("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": TERMS}),
        (
            "spec.pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            "[0]."
            'matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", '
            '"DoesNotExist", "Gt", "Lt"'
        ),
    ),
    (
        config(FIT, kind="InterPodAffinityArgs"),
        (
            "spec.pluginConfig[0].args.kind: args for plugin NodeResourcesFit were not of type NodeResourcesFitArgs."
            "kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"
        ),
    ),
    (
        {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "cpu"}]}},
        'spec.scoringStrategy.resources[1].name: "cpu": occurs twice',
    ),
    (
        enabled("score", {"name": "NodeResourceFit"}),
        (
            'spec.plugins.score.enabled[0].name: "NodeResourceFit": there is no such plugin; did you mean '
            "NodeResourcesFit?"
        ),
    ),
    (
        enabled("score", {"name": "ImageLocality"}, {"name": "NodeName"}),
        'spec.plugins.score.enabled[1].name: "NodeName": has nothing to do at score; its points are filter, preFilter',
    ),
    (
        enabled("multiPoint", {"name": "GangScheduling"}),
        (
            'spec.plugins.multiPoint.enabled[0].name: "GangScheduling": not decided yet: upstream has it behind '
            "a feature "
            "gate that is off"
        ),
    ),
    (
        enabled("filter", {"name": "EBSLimits"}),
        (
            'spec.plugins.filter.enabled[0].name: "EBSLimits": Kubernetes has no such plugin any more; '
            "NodeVolumeLimits "
            "does its work"
        ),
    ),
    (
        {"plugins": {"bind": {"disabled": [{"name": "*"}]}}},
        'spec.plugins.bind: at least one bind plugin is needed for profile with scheduler name "dense"',
    ),
    (
        {"plugins": {"queueSort": {"disabled": [{"name": "PrioritySort"}]}}},
        (
            "spec.plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
            '"dense", but got 0'
        ),
    ),
    (
        {"pluginConfig": [{"name": "EBSLimits"}]},
        (
            'spec.pluginConfig[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
            "(KubeSchedulerConfiguration is "
            'version "kubescheduler.config.k8s.io/v1")'
        ),
    ),
    (
        {"extenders": [{"urlPrefix": "https://extender.mon.svc/", "filterVerb": "filter"}]},
        "spec.extenders: are not asked yet, and decisions without them would be others: take them out",
    ),
    (
        {"extenders": [{"urlPrefix": "https://extender.mon.svc/"}, {"urlPrefix": "https://169.254.169.254/latest"}]},
        "spec.extenders[1].urlPrefix: must name a host, not an IP address",
    ),
    (
        {"extenders": [{"urlPrefix": "https://extender.mon.svc", "filterVerb": "../../api/v1/secrets"}]},
        (
            "spec.extenders[0].filterVerb: as part of its URL it must have a plain path: no query, no fragment, "
            "no escapes, no dots as parts, no backslashes"
        ),
    ),
]


@pytest.mark.parametrize(("spec", "expected"), REFUSED, ids=[expected.split(":")[0] for _, expected in REFUSED])
def test_what_the_scheduler_would_refuse_is_refused_with_its_field(spec: dict[str, Any], expected: str) -> None:
    assert expected in said(**spec)


def test_all_findings_are_reported_together() -> None:
    spec = {
        "schedulerName": "default-scheduler",
        "scoringStrategy": {"type": "LeastAllocated"},
        **enabled("score", {"name": "Nope"}, {"name": "*"}),
        "pluginConfig": [
            {"name": FIT, "args": {"a": 1, "b": 2}},
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": -1}},
        ],
        "extenders": [{"urlPrefix": "https://here.mon.svc/"}],
    }
    assert [text.partition(": ")[0] for text in said(**spec)] == [
        "spec.schedulerName",
        "spec.plugins.score.enabled[1].name",
        "spec.scoringStrategy",
        "spec.extenders",
        "spec.plugins.score.enabled[0].name",
        "spec.pluginConfig[0].args.a",
        "spec.pluginConfig[0].args.b",
        "spec.pluginConfig[1].args.hardPodAffinityWeight",
    ]


OF_PROFILES = [case for case in CASES if case.kind == PROFILE and case.old is None]


@pytest.mark.parametrize("case", OF_PROFILES, ids=str)
def test_what_the_server_s_rules_refuse_is_refused_here_too(case: Case) -> None:
    """For files, which no server has seen. The field is the server's, or lies within it."""
    for spec in case.refuses:
        found = problems_of(manifest(PROFILE, spec))
        # The plugins of some cases do not exist, which is another matter.
        fields = [problem.field for problem in found if "there is no such plugin" not in problem.message]
        assert fields
        assert all(field.startswith(case.field) for field in fields), found


@pytest.mark.parametrize("case", OF_PROFILES, ids=str)
def test_what_the_server_s_rules_accept_breaks_no_rule_here(case: Case) -> None:
    """The plugins of these cases do not exist, which is another matter."""
    for spec in case.accepts:
        assert list(spec_problems(read_profile(manifest(PROFILE, spec)).spec)) == []


# ---- URLs ------------------------------------------------------------------------------------------------------------


def test_urls_of_extenders_are_checked_by_rules_and_every_wrong_one_is_named() -> None:
    """What they stand for is another question, which needs a network."""
    urls = ["https://127.0.0.1:8888/", "http://extender.mon.svc/", "https://good.mon.svc:8443/", "https://localhost/"]
    made = profile(extenders=[{"urlPrefix": url} for url in urls])

    def said_with(rules: UrlRules | None) -> list[str]:
        with pytest.raises(ProfileError) as caught:
            compile_profile(made, urls=rules)
        fields = [problem.field for problem in caught.value.problems if problem.field != "spec.extenders"]
        return list(dict.fromkeys(fields))

    wrong = [f"spec.extenders[{index}].urlPrefix" for index in (0, 1, 3)]
    assert said_with(UrlRules()) == wrong
    assert said_with(UrlRules(allowed=(parse_network("127.0.0.0/8"),))) == wrong[1:]
    assert said_with(UrlRules(http=True, hosts=frozenset({"localhost"}))) == wrong[:1]
    assert said_with(None) == []


@pytest.mark.parametrize(
    "spec",
    [{}, {"extenders": 7}, {"extenders": [7, {}, {"urlPrefix": 7}, {"urlPrefix": "x"}]}, {"extenders": {"0": {}}}],
)
def test_urls_are_found_in_whatever_stands_there(spec: dict[str, Any]) -> None:
    assert urls_in(spec) == ([("spec.extenders[3].urlPrefix", "x")] if isinstance(spec.get("extenders"), list) else [])


# ---- plugins of others -----------------------------------------------------------------------------------------------


class Picky(ScorePlugin):
    """Takes {"level": 1} only."""

    name = "Picky"

    def __init__(self, args: object, handle: object) -> None:
        if not isinstance(args, RawArgs) or args.value != {"level": 1}:
            raise LookupError("level: must be\n1")

    def score(self, state: object, view: NodeView) -> Scores:
        raise NotImplementedError


def test_a_plugin_of_another_distribution_sees_its_args_before_a_worker_does() -> None:
    given = {**enabled("score", {"name": "Picky", "weight": 2}), **config("Picky", level=1)}
    assert compile_profile(profile(**given), {"Picky": Picky})["pluginConfig"] == given["pluginConfig"]
    wrong = profile(**{**given, **config("Picky", level=2)})
    with pytest.raises(ProfileError) as caught:
        compile_profile(wrong, {"Picky": Picky})
    assert [str(problem) for problem in caught.value.problems] == [
        r"spec.pluginConfig[0].args: plugin Picky: LookupError: level: must be\n1"
    ]
    with pytest.raises(ProfileError, match='"Picky": there is no such plugin'):
        compile_profile(profile(**given))


def test_a_plugin_that_does_not_know_what_it_listens_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Picky) -> None:
        raise LookupError("no idea")

    monkeypatch.setattr(Picky, "events", broken)
    given = profile(**enabled("score", {"name": "Picky"}), **config("Picky", level=1))
    with pytest.raises(ProfileError, match="plugin Picky: LookupError: no idea"):
        compile_profile(given, {"Picky": Picky})


# ---- hashes ----------------------------------------------------------------------------------------------------------


def test_a_hash_is_that_of_what_decides() -> None:
    plain = profile_hash(profile().spec)
    assert plain == "68c4a4689002d602", "the same forever: with another value HASH_VERSION must change"
    assert profile_hash(profile(rollout={"mode": "Paused"}, workers={"replicas": 2}, takeOver=True).spec) == plain
    assert profile_hash(profile(plugins={"score": {"enabled": []}, "filter": None}).spec) == plain
    assert profile_hash(profile(percentageOfNodesToScore=5).spec) != plain
    assert profile_hash(profile(extenders=[{"urlPrefix": "https://here/"}]).spec) != plain


def test_the_short_form_of_the_strategy_has_the_hash_of_the_long_one() -> None:
    strategy = {"type": "MostAllocated"}
    short, long = profile(scoringStrategy=strategy), profile(**config(FIT, scoringStrategy=strategy))
    assert profile_hash(short.spec) == profile_hash(long.spec)
