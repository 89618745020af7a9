"""Percentages, and pods from templates."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.cluster.int_or_percent import IntOrString, scaled_value
from stowplan_autoscaling.cluster.pod_template import pod_from_template
from stowplan_autoscaling.cluster.pods import PENDING
from stowplan_scheduler.objects import Container, ObjectMeta, OwnerReference, PodSpec, PodTemplateSpec


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        (0, 10, 0, 0),
        ("25%", 10, 3, 2),
        ("25%", 4, 1, 1),
        ("25%", 3, 1, 0),
        ("1%", 2, 1, 0),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        ("150%", 3, 5, 4),
        ("33%", 0, 0, 0),
    ],
)
def test_a_share_is_rounded_one_way_or_the_other(value: IntOrString, total: int, up: int, down: int) -> None:
    """maxSurge rounds up, maxUnavailable of a Deployment down: 25 % of 10 are 2.5."""
    assert scaled_value(value, total, round_up=True) == up
    assert scaled_value(value, total, round_up=False) == down


@pytest.mark.parametrize("text", ["25", "%", "x%", "2.5%", "", "25 %"])
def test_other_texts_are_no_share(text: str) -> None:
    """The error says what would be one."""
    with pytest.raises(ValueError, match="must be an integer or a percentage such as 25%"):
        scaled_value(text, 10, round_up=True)


def test_a_pod_takes_over_what_its_template_says() -> None:
    """Labels and annotations of the template, the namespace and name of the parent, and nothing else of it."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "web"}, annotations={"a": "b"}),
        spec=PodSpec(containers=(Container(name="app"),)),
    )
    parent = ObjectMeta(name="web-1", namespace="shop", labels={"team": "x"}, annotations={"c": "d"})
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-1", uid="u", controller=True)
    pod = pod_from_template(template, parent, owner)
    assert (pod.metadata.name, pod.metadata.generate_name, pod.metadata.namespace) == ("", "web-1-", "shop")
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"app": "web"}, {"a": "b"})
    assert pod.metadata.labels is template.metadata.labels, "pods of one template share their labels"
    assert (pod.metadata.owner_references, pod.owner_uid) == ((owner,), "u")
    assert pod.spec is template.spec
    assert pod.status.phase == PENDING


def test_a_pod_with_a_name_of_its_own() -> None:
    """As a StatefulSet makes it: no generated name, and labels on top of the template's."""
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "db"}))
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid="u", controller=True)
    pod = pod_from_template(template, ObjectMeta(name="db"), owner, name="db-0", labels={"index": "0"})
    assert (pod.metadata.name, pod.metadata.generate_name) == ("db-0", "")
    assert pod.metadata.labels == {"app": "db", "index": "0"}
    assert template.metadata.labels == {"app": "db"}
