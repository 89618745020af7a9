"""What a profile says about URLs that lead where nobody may be sent."""

from __future__ import annotations

from typing import Any

from stowplan_operator.handlers.choosing import Compiled, Compiler, choose
from stowplan_operator.handlers.observed import observed
from stowplan_operator.handlers.url_verdicts import UrlVerdict
from support.situations import COMPILER, PACK, Cluster, profile

URL, OTHER = "https://extender.mon.svc/", "https://other.mon.svc/"
REFUSED = UrlVerdict("AddressRefused", "the host name stands for an address that is not allowed: a loopback address")
UNKNOWN = UrlVerdict("NameUnknown", "the host name cannot be resolved")
EXTENDED: dict[str, Any] = {"extenders": [{"urlPrefix": OTHER}, {"urlPrefix": URL, "filterVerb": "filter"}]}
NOT_ASKED = "spec.extenders: are not asked yet, and decisions without them would be others: take them out"


def test_a_name_that_leads_to_a_special_address_is_refused_with_its_field_beside_all_else() -> None:
    cluster = Cluster(profile(spec=EXTENDED))
    cluster.urls = {OTHER: UrlVerdict(), URL: REFUSED}
    cluster.settle()
    accepted = cluster.condition("dense", "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "AddressRefused")
    assert accepted["message"] == f"spec.extenders[1].urlPrefix: {REFUSED.message}; {NOT_ASKED}"
    assert cluster.files == {}


def test_a_name_that_cannot_be_resolved_has_a_reason_of_its_own() -> None:
    cluster = Cluster(profile(spec=EXTENDED))
    cluster.urls = {OTHER: UNKNOWN, URL: REFUSED}
    cluster.settle()
    accepted = cluster.condition("dense", "Accepted")
    assert accepted["reason"] == "NameUnknown"
    first, second = (
        f"spec.extenders[{index}].urlPrefix: {verdict.message}" for index, verdict in enumerate((UNKNOWN, REFUSED))
    )
    assert accepted["message"] == f"{first}; {second}; {NOT_ASKED}"
    # It is found later.
    cluster.urls = {OTHER: UrlVerdict(), URL: UrlVerdict()}
    cluster.settle()
    assert cluster.condition("dense", "Accepted")["message"] == NOT_ASKED


def test_a_status_waits_for_a_look_up_and_what_runs_does_not() -> None:
    """So that the first event about a profile says all that is wrong with it."""
    cluster = Cluster(profile(spec=PACK), profile("wide", spec=EXTENDED))
    cluster.settle()
    before = len(cluster.writes)
    cluster.edit("dense", **EXTENDED)
    cluster.urls = {OTHER: UrlVerdict(), URL: None}
    cluster.settle()
    assert cluster.writes[before:] == []
    assert set(cluster.files) == {"default"}
    cluster.urls = {OTHER: UrlVerdict(), URL: REFUSED}
    cluster.settle()
    assert "Degraded=True/OlderConfigurationRuns@2" in cluster.shown("dense")
    assert "Accepted=False/AddressRefused@2" in cluster.shown("dense")
    assert "Accepted=False/AddressRefused@1" in cluster.shown("wide")


class Undemanding(Compiler):
    """Knows how to ask extenders: whatever it is given without them is good with them, too."""

    def compile(self, spec: Any) -> Compiled:
        return COMPILER.compile({name: value for name, value in spec.items() if name != "extenders"})

    def configuration(self, members: Any) -> dict[str, Any]:
        return COMPILER.configuration(members)


def test_a_url_alone_is_reason_enough_to_refuse_a_profile() -> None:
    """Also once extenders are asked."""
    found = [observed(profile(spec=EXTENDED))]
    (verdict,) = choose(found, {}, Undemanding(), {URL: REFUSED})
    assert verdict.running is None
    assert str(verdict.refusal) == f"spec.extenders[1].urlPrefix: {REFUSED.message}"
    (verdict,) = choose(found, {}, Undemanding(), {URL: UrlVerdict()})
    assert verdict.refusal is None
    assert verdict.running is not None
