"""Findings over seeds."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.experiment.findings import findings_of


def found(*texts: tuple[str, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Of seeds from 1 on."""
    return [(each.text, each.seeds) for each in findings_of(dict(enumerate(texts, 1)))]


def test_findings_that_differ_in_numbers_only_are_one_with_their_range() -> None:
    """Numbers that are the same stay one number."""
    assert found(
        ("pool a: nodes come and go: 26 times within 10 minutes",),
        ("pool a: nodes come and go: 9 times within 10 minutes",),
        ("pool a: nodes come and go: 1,031 times within 10 minutes", "something else"),
    ) == [
        ("pool a: nodes come and go: 9 to 1,031 times within 10 minutes", (1, 2, 3)),
        ("something else", (3,)),
    ]


@pytest.mark.parametrize("name", ["pool-{}", "m5.{}", "zone{}", "shop/{}", "web.{}.a"])
def test_numbers_within_names_tell_things_apart(name: str) -> None:
    """A pool is not another one."""
    one, other = (f"{name.format(number)}: 3 times" for number in (1, 2))
    assert found((one,), (other,), (one,)) == [(one, (1, 3)), (other, (2,))]


def test_several_of_one_run_are_not_merged() -> None:
    """They say different things, although only a number tells them apart."""
    assert found(("after 5 s", "after 7 s"), ("after 7 s",)) == [("after 5 s", (1,)), ("after 7 s", (1, 2))]


def test_without_findings_there_are_none() -> None:
    """As it should be."""
    assert found((), ()) == []
