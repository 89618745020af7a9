"""A rule's key must hold all that the rule reads of a pod: pods with equal keys share their answers.

A key that forgets a field gives a pod the verdicts of another one, but only once both have been seen, which is why a
test of single decisions cannot find it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, ScorePlugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.scheduler import Scheduler
from support.strategies import nodes, pods
from support.tables import World

PROFILE = Scheduler(load_configuration(None), First()).profiles["default-scheduler"]
FILTERS = [plugin for plugin in PROFILE.filters if plugin.filter_inputs is not Inputs.CLUSTER]
SCORES = [plugin for plugin, _ in PROFILE.scores if plugin.score_inputs is not Inputs.CLUSTER]
ASPECTS = (
    "node_selector", "affinity", "tolerations", "containers", "init_containers", "overhead", "resources", "volumes",
    "priority", "topology_spread_constraints",
)  # fmt: skip
NODES = 4


def variants(one: Pod, other: Pod) -> Iterator[Pod]:
    """The first pod, once with each aspect of the second, and with its own tolerations changed a little."""
    for aspect in ASPECTS:
        yield replace(one, spec=replace(one.spec, **{aspect: getattr(other.spec, aspect)}))
    for changed in ({"value": "y"}, {"effect": "PreferNoSchedule"}, {"operator": "Exists", "value": ""}):
        tolerations = tuple(replace(toleration, **changed) for toleration in one.spec.tolerations)
        yield replace(one, spec=replace(one.spec, tolerations=tolerations))
    yield replace(one, metadata=replace(one.metadata, labels=other.metadata.labels))
    yield replace(one, metadata=replace(one.metadata, namespace=other.metadata.namespace))


def with_amounts_of(one: Pod, other: Pod) -> Pod:
    """The first pod with the amounts that the second one's first container requests."""
    first, *rest = one.spec.containers
    changed = replace(first, resources=other.spec.containers[0].resources)
    return replace(one, spec=replace(one.spec, containers=(changed, *rest)))


def filtered(plugin: FilterPlugin, pod: PodInfo, world: World) -> object:
    """PreFilter's result, and what Filter says about each node."""
    result = plugin.pre_filter(pod, world.cluster)
    said = []
    if result.status.is_success:
        said = [plugin.reasons.statuses[code] for code in plugin.filter(result.state, world.view())]
    return result.status, result.node_names, said


def scored(plugin: ScorePlugin, pod: PodInfo, world: World) -> object:
    """PreScore's status and the raw scores."""
    outcome = plugin.pre_score(pod, world.cluster, world.view())
    return outcome.status, plugin.score(outcome.state, world.view()).tolist() if outcome.status.is_success else []


clusters = st.tuples(
    st.tuples(*(nodes(f"n{i}") for i in range(NODES))),
    st.lists(st.sampled_from(range(NODES)).flatmap(lambda i: pods(f"e{i}", on=f"n{i}", rich=False)), max_size=3),
)


def world_of(cluster: tuple[tuple[Node, ...], list[Pod]]) -> World:
    made, running = cluster
    return World(made, {pod.key: pod for pod in running}.values())


@given(clusters, pods("one", count=NODES), pods("other", count=NODES))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_pods_with_equal_keys_get_equal_answers(
    cluster: tuple[tuple[Node, ...], list[Pod]], one: Pod, other: Pod
) -> None:
    """Each variant differs in one field, so a key without that field is equal to the first pod's."""
    world = world_of(cluster)
    first = world.info(one)
    for variant in map(world.info, variants(one, other)):
        for plugin in FILTERS:
            if plugin.filter_key(first) == plugin.filter_key(variant):
                assert filtered(plugin, first, world) == filtered(plugin, variant, world), plugin.name
        for scorer in SCORES:
            if scorer.score_key(first) == scorer.score_key(variant):
                assert scored(scorer, first, world) == scored(scorer, variant, world), scorer.name


@given(clusters, pods("one", count=NODES), pods("other", count=NODES))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_rules_that_read_no_requests_cannot_tell_pods_of_one_template_apart(
    cluster: tuple[tuple[Node, ...], list[Pod]], one: Pod, other: Pod
) -> None:
    """What such a rule says is shared by all shapes of a template, whatever its key."""
    world = world_of(cluster)
    first, second = world.info(one), world.info(with_amounts_of(one, other))
    assert first.shape.template is second.shape.template
    for plugin in FILTERS:
        if not plugin.filter_reads_requests:
            assert filtered(plugin, first, world) == filtered(plugin, second, world), plugin.name
    for scorer in SCORES:
        if not scorer.score_reads_requests:
            assert scored(scorer, first, world) == scored(scorer, second, world), scorer.name


def test_most_rules_of_the_default_profile_are_looked_at_here() -> None:
    """A rule that becomes a CLUSTER rule leaves these tests; that must be meant."""
    assert {plugin.name for plugin in FILTERS} >= {
        "NodeAffinity", "NodeDeclaredFeatures", "NodeName", "NodePorts", "NodeResourcesFit", "NodeUnschedulable",
        "TaintToleration",
    }  # fmt: skip
    assert {scorer.name for scorer in SCORES} >= {
        "ImageLocality", "NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit", "TaintToleration",
    }  # fmt: skip
