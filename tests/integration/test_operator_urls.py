"""URLs in SchedulerProfiles on a real control plane: those that lead to special addresses are refused unless a flag
allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.operator_bench import OperatorBench, operator_bench

pytestmark = [pytest.mark.rig, pytest.mark.slow]

URLS: Final = {
    "loopback": "https://127.0.0.1:8888/",
    "metadata": "https://169.254.169.254/latest/meta-data/",
    "name": "https://localhost:8888/",
    "unknown": "https://nobody.mon.svc/",
}
NOT_ASKED: Final = "spec.extenders: are not asked yet, and decisions without them would be others: take them out"
NO_ADDRESS: Final = "must name a host, not an IP address"
UNKNOWN: Final = "the host name cannot be resolved"
LEADS: Final = "the host name stands for an address that is not allowed: a loopback address"
NO_SERVICE: Final = "must name a service as <service>.<namespace>.svc, or a host that is allowed by name"


@pytest.fixture(scope="module")
def bench(rig: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorBench]:
    with operator_bench(rig, repository, tmp_path_factory.mktemp("operator")) as made:
        for name, url in URLS.items():
            made.profiles.create(name, extenders=[{"urlPrefix": url, "filterVerb": "filter"}])
        yield made


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            (),
            {
                "loopback": ("Invalid", NO_ADDRESS),
                "metadata": ("Invalid", NO_ADDRESS),
                "name": ("Invalid", NO_SERVICE),
                "unknown": ("NameUnknown", UNKNOWN),
            },
        ),
        (
            ("--allow-url-host", "localhost", "--allow-url-network", "169.254.0.0/16"),
            {
                "loopback": ("Invalid", NO_ADDRESS),
                "metadata": ("Invalid", ""),
                "name": ("AddressRefused", LEADS),
                "unknown": ("NameUnknown", UNKNOWN),
            },
        ),
        (
            (
                *("--allow-url-network", "127.0.0.0/8", "--allow-url-network", "::1", "--allow-url-host", "localhost"),
                *("--allow-url-network", "169.254.0.0/16", "--deny-url-network", "169.254.169.254"),
            ),
            {"loopback": ("Invalid", ""), "metadata": ("Invalid", NO_ADDRESS), "name": ("Invalid", "")},
        ),
    ],
    ids=["as it is shipped", "a name and a network", "loopback"],
)
def test_a_url_that_leads_to_a_special_address_is_refused_with_its_field_unless_a_flag_allows_it(
    bench: OperatorBench, tmp_path: Path, options: tuple[str, ...], expected: dict[str, tuple[str, str]]
) -> None:
    """Beside that, all say that extenders are not asked yet: a URL that is allowed is still of no use."""
    with bench.operator(tmp_path, options=options) as operator:
        for name, (reason, problem) in expected.items():
            message = f"spec.extenders[0].urlPrefix: {problem}; {NOT_ASKED}" if problem else NOT_ASKED

            def says(name: str = name, reason: str = reason, message: str = message) -> bool:
                found = bench.profiles.conditions(name).get("Accepted", {})
                return (found.get("reason"), found.get("message")) == (reason, message)

            operator.until(says, f"{name}: {reason}: {message}")
        assert operator.records("a round failed") == []
        assert operator.stop() == 0


def test_the_first_event_about_a_profile_says_where_its_url_leads(bench: OperatorBench, tmp_path: Path) -> None:
    """It is not written before the name is looked up."""
    with bench.operator(tmp_path, options=("--allow-url-host", "localhost")) as operator:
        bench.profiles.create("told", extenders=[{"urlPrefix": "https://localhost/"}])
        bench.wait(operator, "told", Accepted="False AddressRefused")
        described: list[str] = []

        def is_told() -> bool:
            described[:] = [
                line for line in bench.kubectl("describe", "sprof", "told").splitlines() if "Warning" in line
            ]
            return bool(described)

        operator.until(is_told, "there is an event")
        assert len(described) == 1
        assert f"spec.extenders[0].urlPrefix: {LEADS}; {NOT_ASKED}" in described[0]
        assert operator.stop() == 0
