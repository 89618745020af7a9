"""Lines of CSV made in batches are what the csv module writes of each row."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.results import AttemptRecord, AutoscalerSample, PodRecord, Row, Waiting
from stowplan_autoscaling.results.lines import lines_of
from stowplan_autoscaling.results.records import shown

NUMBERS = st.floats(-1e9, 1e9) | st.integers(-100, 100).map(float) | st.sampled_from([0.1 + 0.2, 1e-9, 2.9999999999])
TEXTS = st.text('ab,"\n -', max_size=6)


def one_by_one(rows: list[Row]) -> str:
    """Each row by itself, written by the csv module; the parts of waiting have cells of their own."""
    found = io.StringIO()
    writer = csv.writer(found, lineterminator="\n")
    for row in rows:
        cells = [part for value in row for part in (value if isinstance(value, Waiting) else (value,))]
        writer.writerow([shown([cell])[0] if isinstance(cell, float) else cell for cell in cells])
    return found.getvalue()


SYNCS = st.builds(
    AutoscalerSample,
    NUMBERS,
    st.just("HorizontalPodAutoscaler shop/web"),
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.integers(0, 9),
    TEXTS,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    NUMBERS,
    TEXTS,
)


def test_numbers_are_shown_to_the_sixth_place_and_whole_ones_without_a_point() -> None:
    cells = [0.1 + 0.2, 2.9999999999, -0.0, 1e16, 1e-6, 1e-9, 1234.5, 7.0]
    assert [str(cell) for cell in shown(cells)] == ["0.3", "3", "0", "10000000000000000", "1e-06", "0", "1234.5", "7"]


@given(st.lists(SYNCS, min_size=1, max_size=8))
def test_a_batch_is_what_the_csv_module_writes_row_by_row(rows: list[AutoscalerSample]) -> None:
    assert lines_of(rows) == one_by_one(list(rows))


def test_the_parts_of_waiting_have_cells_of_their_own() -> None:
    """Twenty-one columns in all, of one row and of two."""
    pod = PodRecord("shop/web-1", "w", "n", 0.0, 1.25, None, 2.0, None, "Running", 1, 0, Waiting(metric=0.5))
    for rows in ([pod], [pod, pod._replace(scheduled=None)]):
        assert lines_of(rows) == one_by_one(list(rows))
        assert len(next(csv.reader([lines_of(rows).splitlines()[0]]))) == 21


def test_messages_with_commas_quotes_and_breaks_are_quoted() -> None:
    row = AttemptRecord(1.0, "shop/a", "p", "Error", "", 3, 0, "", '0/3 nodes: 1 "x", 2 more\nand so on')
    assert lines_of([row]) == '1,shop/a,p,Error,,3,0,,"0/3 nodes: 1 ""x"", 2 more\nand so on"\n'
