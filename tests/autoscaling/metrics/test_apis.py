"""The three APIs as one client."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.hpa.metrics import MetricsClient, MetricsError
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.metrics import ComputedExternal, MetricsApis
from stowplan_scheduler.selectors import EVERYTHING


def test_an_api_without_a_provider_says_so() -> None:
    """In the words that a cluster without the API server's extension has."""
    apis: MetricsClient = MetricsApis()
    with pytest.raises(MetricsError, match=r"resource metrics API: .*\(get pods\.metrics\.k8s\.io\)$"):
        apis.resource("cpu", "default", EVERYTHING, None, 0)
    with pytest.raises(MetricsError, match=r"no custom metrics API \(custom\.metrics\.k8s\.io\) registered$"):
        apis.pods("x", "default", EVERYTHING, None, 0)
    with pytest.raises(MetricsError, match=r"no custom metrics API"):
        apis.object("x", "default", CrossVersionObjectReference(kind="Service", name="a"), None, 0)
    with pytest.raises(MetricsError, match=r"\(get x\.external\.metrics\.k8s\.io\)$"):
        apis.external("x", "default", None, 0)


def test_computed_external_metrics_are_of_the_moment() -> None:
    """A function of the time, several series; a metric that is not there has the reason that was asked for."""
    apis = MetricsApis(externals=ComputedExternal({"depth": lambda now: [now // SECOND, 7], "none": lambda _: []}))
    assert apis.external("depth", "default", None, int(2.5 * SECOND)) == ([2, 7], 2 * SECOND)
    with pytest.raises(MetricsError, match=r"external metrics API: no such metric$"):
        apis.external("other", "default", None, 0)
    with pytest.raises(MetricsError, match=r"^no metrics returned from external metrics API$"):
        apis.external("none", "default", None, 0)
