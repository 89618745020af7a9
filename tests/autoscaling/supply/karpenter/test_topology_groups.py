"""Which domains the next pod may take."""

from __future__ import annotations

from stowplan_autoscaling.supply.karpenter import Requirement, Requirements, one_of
from stowplan_autoscaling.supply.karpenter.topology_groups import AFFINITY, ANTI_AFFINITY, Choice, Group, Term
from stowplan_scheduler.objects import PodSpec
from support.builders import HOSTNAME, ZONE, PodBuilder, node_term, selector

WEB = selector(app="web")
LABELS = {"app": "web"}


def spread(key: str = ZONE, *, max_skew: int = 1, min_domains: int | None = None, spec: PodSpec | None = None) -> Term:
    builder = PodBuilder("p").labels(app="web").spread(key, WEB, max_skew=max_skew, min_domains=min_domains)
    made = builder.build().spec
    return Term.of_spread("default", LABELS, spec or made, made.topology_spread_constraints[0])


def affinity(kind: str, key: str = ZONE) -> Term:
    return Term.of_affinity(kind, key, frozenset({"default"}), WEB)


def group(term: Term, **counts: int) -> Group:
    made = Group(term, counts)
    for domain, count in counts.items():
        if count:
            made.record(domain, count)
    return made


def domains(made: Group, pod: Requirement | None, node: Requirement | None, *, selected: bool) -> set[str]:
    return set(made.choose(pod, node, selected=selected).domains)


def test_a_spread_takes_one_of_the_emptiest_domains() -> None:
    assert group(spread(), a=2, b=1, c=1).choose(None, None, selected=True) == Choice(frozenset("bc"), True)
    assert group(spread(), c=1, b=0).choose(None, None, selected=True) == Choice(frozenset("b"), True)


def test_a_spread_stays_within_the_skew_over_all_domains_that_the_pod_may_use() -> None:
    crowded = group(spread(), a=2, b=1)
    only_a = one_of(ZONE, "a")
    assert domains(crowded, None, only_a, selected=True) == set()
    assert domains(crowded, only_a, only_a, selected=True) == {"a"}
    assert domains(crowded, None, only_a, selected=False) == {"a"}
    assert domains(group(spread(max_skew=2), a=2, b=1), None, only_a, selected=True) == {"a"}


def test_fewer_domains_than_wanted_make_the_least_count_zero() -> None:
    assert domains(group(spread(min_domains=3), a=1, b=1), None, None, selected=True) == set()
    assert domains(group(spread(min_domains=2), a=1, b=1), None, None, selected=True) == {"a", "b"}


def test_a_new_host_can_always_be_had_so_the_least_count_of_hosts_is_zero() -> None:
    hosts = group(spread(HOSTNAME, max_skew=2), h1=2, h2=1)
    assert not hosts.host_allowed("h1", None, selected=True)
    assert hosts.host_allowed("h1", None, selected=False)
    assert hosts.host_allowed("h2", None, selected=True)
    assert hosts.host_allowed("new", None, selected=True)


def test_affinity_takes_every_domain_with_such_pods() -> None:
    assert group(affinity(AFFINITY), a=1, b=0, c=3).choose(None, None, selected=False) == Choice(frozenset("ac"), False)
    assert domains(group(affinity(AFFINITY), a=1, b=0), None, one_of(ZONE, "b"), selected=True) == set()


def test_the_first_of_its_kind_starts_anywhere_where_it_and_the_node_may_be() -> None:
    empty = group(affinity(AFFINITY), a=0, b=0, c=0)
    assert empty.choose(None, one_of(ZONE, "b", "c"), selected=True) == Choice(frozenset("bc"), True)
    assert domains(empty, None, None, selected=False) == set()
    taken = group(affinity(AFFINITY), a=1, b=0)
    assert domains(taken, one_of(ZONE, "b"), one_of(ZONE, "b"), selected=True) == {"b"}


def test_anti_affinity_takes_empty_domains() -> None:
    assert domains(group(affinity(ANTI_AFFINITY), a=1, b=0, c=0), None, None, selected=True) == {"b", "c"}
    narrow = Requirement.of(ZONE, "NotIn", ["c"])
    assert domains(group(affinity(ANTI_AFFINITY), a=1, b=0, c=0), narrow, None, selected=True) == {"b"}
    hosts = group(affinity(ANTI_AFFINITY, HOSTNAME), h=1)
    assert not hosts.host_allowed("h", None, selected=False)
    assert hosts.host_allowed("other", None, selected=True)


def test_affinity_to_a_host_needs_such_a_pod_there_or_nowhere() -> None:
    hosts = group(affinity(AFFINITY, HOSTNAME), h=1)
    assert hosts.host_allowed("h", None, selected=False)
    assert not hosts.host_allowed("other", None, selected=True)
    assert group(affinity(AFFINITY, HOSTNAME)).host_allowed("other", None, selected=True)


def test_pods_of_other_namespaces_and_labels_are_not_counted() -> None:
    made = group(spread())
    assert made.selects("default", {"app": "web", "tier": "1"})
    assert not made.selects("default", {"app": "db"})
    assert not made.selects("other", LABELS)


def test_upstream_tells_filters_apart_by_their_labels_and_not_by_the_values() -> None:
    east = PodBuilder("p").node_selector(zone="a").build().spec
    west = PodBuilder("p").node_selector(zone="b").build().spec
    team = PodBuilder("p").node_selector(team="b").build().spec
    assert spread(spec=east).identity == spread(spec=west).identity
    assert spread(spec=east).identity != spread(spec=team).identity
    assert spread(min_domains=2).identity == spread(min_domains=3).identity
    assert spread(max_skew=2).identity != spread(max_skew=3).identity


def test_terms_with_the_same_labels_cancel_out_in_upstreams_fingerprint() -> None:
    twice = PodBuilder("p").require_node(node_term("zone", "In", "a"), node_term("zone", "In", "b")).build().spec
    none = PodBuilder("p").require_node().build().spec
    assert spread(spec=twice).identity == spread(spec=none).identity


def test_a_filter_looks_at_selector_affinity_and_if_asked_at_taints() -> None:
    spec = PodBuilder("p").node_selector(zone="a").build().spec
    node_filter = spread(spec=spec).node_filter
    assert node_filter.passes((), Requirements.of_labels({ZONE: "a"}))
    assert not node_filter.passes((), Requirements.of_labels({ZONE: "b"}))
    assert not node_filter.passes((), Requirements.of_labels({}))
    assert not node_filter.is_open
    assert spread().node_filter.is_open
