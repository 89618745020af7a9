"""The comparison of the live check says "as predicted" for that, and for nothing else."""

from __future__ import annotations

import pytest

from live.comparison import Band, Step, compare_steps, compare_time, compare_value, envelope, steps_of, value_at
from live.page import markdown, with_table

PREDICTED = [Step(0, 2), Step(75, 4), Step(90, 8)]


def steps(*pairs: tuple[float, int]) -> list[Step]:
    return [Step(*pair) for pair in pairs]


def test_steps_are_what_differs_and_of_one_instant_the_last() -> None:
    """Sixteen nodes that register at once are one step."""
    samples = [(0.0, 0), (1.0, 0), (2.0, 5), (2.0, 16), (3.0, 16), (4.0, 15)]
    assert steps_of(samples) == steps((0.0, 0), (2.0, 16), (4.0, 15))
    assert steps_of([(0.0, 3), (1.0, 4), (1.0, 3)]) == steps((0.0, 3))


def test_the_same_steps_within_their_bands_are_as_predicted() -> None:
    """The band is the predicted time, less what may come early and more what may come late."""
    rows = compare_steps([PREDICTED], steps((0.2, 2), (76.5, 4), (91, 8)), unit="replicas", before=1, after=4)
    assert all(row.holds for row in rows)
    assert [row.what for row in rows] == ["replicas, step by step", "replicas: step 1", "replicas: step 2"]
    assert rows[1].band == "74 to 79 s"


@pytest.mark.parametrize(
    ("observed", "wrong"),
    [
        (steps((0, 2), (80, 4), (91, 8)), ["replicas: step 1"]),
        (steps((0, 2), (73.9, 4), (91, 8)), ["replicas: step 1"]),
        (steps((0, 2), (76, 4), (91, 7)), ["replicas, step by step", "replicas: step 2"]),
        (steps((0, 2), (76, 4)), ["replicas, step by step", "replicas: step 2"]),
        (steps((0, 2), (76, 4), (91, 8), (106, 9)), ["replicas, step by step", "replicas: step 3"]),
    ],
)
def test_a_step_that_is_late_or_early_or_other_or_missing_or_too_many_is_not(
    observed: list[Step], wrong: list[str]
) -> None:
    """Each names the rows that fail, and no others."""
    rows = compare_steps([PREDICTED], observed, unit="replicas", before=1, after=4)
    assert [row.what for row in rows if not row.holds] == wrong


def test_of_several_predictions_only_those_with_the_observed_values_make_the_band() -> None:
    """Another sequence has other times."""
    other = steps((0, 2), (60, 3), (90, 8))
    later = steps((0, 2), (77, 4), (90, 8))
    observed = steps((0, 2), (80, 4), (90, 8))
    rows = compare_steps([other, PREDICTED, later], observed, unit="replicas", before=1, after=4)
    assert all(row.holds for row in rows)
    assert rows[0].predicted == "2 → 4 → 8 (2 of 3); or 2 → 3 → 8 (1 of 3)"
    assert rows[1].predicted == "4 at 75.0 to 77.0 s"


def test_a_value_must_be_one_of_those_predicted() -> None:
    """One answer is "equal", several are counted."""
    assert compare_value("nodes", [16, 16], 16) == ("nodes", "16", "16", "equal", True)
    assert compare_value("nodes", [17, 17, 19], 19) == (
        "nodes", "17 (2 of 3), 19 (1 of 3)", "19", "one of these", True,
    )  # fmt: skip
    assert not compare_value("nodes", [17, 17, 19], 18).holds


def test_a_time_must_lie_in_the_band_and_so_must_the_predictions() -> None:
    """A band that does not hold what is predicted was not understood."""
    band = Band(1, 12)
    assert compare_time("round", [1.2, 2], 12.0, band) == ("round", "1.2 to 2.0 s", "12.0 s", "1 to 12 s", True)
    assert not compare_time("round", [1.2], 12.1, band).holds
    assert not compare_time("round", [0.5, 1.2], 5.0, band).holds
    assert not compare_time("round", [1.2], None, band).holds


def test_the_envelope_has_the_least_and_the_greatest_at_each_moment() -> None:
    """Before the first step there is nothing."""
    stories = [steps((1, 16), (50, 8)), steps((2, 17), (60, 7))]
    assert envelope(stories, [1, 30, 55, 70]) == {1: (0, 16), 30: (16, 17), 55: (8, 17), 70: (7, 8)}
    assert value_at(stories[0], 0.5) == 0


def test_a_table_replaces_what_stands_between_its_marks() -> None:
    """And nothing else; a page without the marks is an error."""
    page = "a\n<!-- x -->\nold\n<!-- x -->\nb\n<!-- y -->\n<!-- y -->\n"
    table = markdown([("", "n"), ("k", r"\1 5")])
    assert with_table(page, "x", table) == (
        "a\n<!-- x -->\n|  | n |\n| --- | --- |\n| k | \\1 5 |\n<!-- x -->\nb\n<!-- y -->\n<!-- y -->\n"
    )
    assert with_table(with_table(page, "x", table), "x", "old\n") == page
    with pytest.raises(ValueError, match="<!-- z -->"):
        with_table(page, "z", table)
