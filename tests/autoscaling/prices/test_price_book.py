"""A price book of one's own: what is read, what is found, what commitments come to, and what is wrong with a file."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.prices import HOURS_PER_MONTH, Commitment, NodeTime, Offering, PriceBook, read_price_book

M, C = Offering("m", "", "on-demand"), Offering("c", "", "on-demand")
M_SPOT = Offering("m", "", "spot")


def book(text: str, currency: str = "") -> PriceBook:
    return read_price_book(BytesIO(text.encode()), "prices.csv", currency)


def test_a_book_has_prices_per_hour() -> None:
    """Of a type, wherever and however it is bought."""
    found = book("type,price\nm,0.4\nc,0.25\n")
    assert found.price("m", "zone-a", "spot") == 0.4
    assert found.price("c", "", "on-demand") == 0.25
    assert found.price("x", "", "on-demand") is None
    assert (found.currency, found.commitments) == ("USD", ())


def test_the_row_that_says_most_counts() -> None:
    """Zone and capacity type, then capacity type, then zone, then the type alone."""
    found = book("type,zone,capacity_type,price\nm,,,1\nm,a,,2\nm,,spot,3\nm,a,spot,4\n")
    assert [
        found.price("m", *terms) for terms in (("b", "on-demand"), ("a", "on-demand"), ("b", "spot"), ("a", "spot"))
    ] == [
        1,
        2,
        3,
        4,
    ]


def test_the_capacity_type_says_more_than_the_zone() -> None:
    """A spot machine in zone a has a row for each."""
    found = book("type,zone,capacity_type,price\nm,,,1\nm,a,,2\nm,,spot,3\n")
    assert found.price("m", "a", "spot") == 3


def test_names_of_columns_may_be_written_as_one_likes() -> None:
    """A month has 730 hours; a discount is a share or a percentage; other columns are ignored."""
    found = book("Instance Type,Price-Per-Month,Discount,vcpu\nm,73,10%,4\nc,146,0.5,8\n")
    assert found.price("m", "", "spot") == pytest.approx(0.1 * 0.9)
    assert found.price("c", "", "spot") == pytest.approx(0.2 * 0.5)
    assert found.unused_columns == ("vcpu",)
    assert HOURS_PER_MONTH == 730


def test_a_book_has_one_currency() -> None:
    """Said by the file, by the simulation, or by both alike."""
    assert book("type,price,currency\nm,1,EUR\n").currency == "EUR"
    assert book("type,price,currency\nm,1,EUR\nc,1,\n", "EUR").currency == "EUR"
    assert book("type,price\nm,1\n", "CHF").currency == "CHF"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "prices.csv: the file is empty: a header such as type,price and rows are expected"),
        ("type,price\n", "prices.csv: there are no rows after the header"),
        (
            "name,price\nm,1\n",
            "prices.csv: line 1: no column type: the header must have type, and price or pricePerMonth",
        ),
        ("type,zone\nm,a\n", "line 1: exactly one of the columns price (per hour), pricePerMonth is needed"),
        ("type,price,pricePerMonth\nm,1,1\n", "line 1: exactly one of the columns price (per hour), pricePerMonth"),
        ("type,price,Price Per Hour\nm,1,1\n", "line 1: columns price and Price Per Hour mean the same"),
        ("type,price\nm,1\n\nc\n", "prices.csv: line 4: has 1 columns, the header has 2"),
        ("type,price\n,1\n", "line 2: type: is empty: must be an instance type"),
        ("type,price\nm,\n", 'line 2: price: "": must be a number from 0 to 1e+09'),
        ("type,price\nm,-1\n", 'line 2: price: "-1": must be a number from 0'),
        ("type,price\nm,0x1\n", 'line 2: price: "0x1"'),
        ('type,price\nm,"1,5"\n', 'line 2: price: "1,5": must be a number from 0 to 1e+09, with a point and no sign'),
        ("type,price\nm,nan\n", 'line 2: price: "nan"'),
        (
            "type,price,capacityType\nm,1,Spot\nm,1,reserved\n",
            'line 3: capacityType: "reserved": must be on-demand, spot',
        ),
        ("type,price\nm,1\nm,2\n", 'line 3: type: "m" occurs twice'),
        ("type,price,zone\nm,1,a\nm,2,a\n", 'line 3: type: "m" (a) occurs twice'),
        ("type,price,discount\nm,1,120%\n", 'line 2: discount: "120%": must be a share from 0 to 1, or a percentage'),
        ("type,price,currency\nm,1,EUR\nc,1,USD\n", 'line 3: currency: "USD": an earlier row has EUR'),
        ("type,price,committed\nm,1,1.5\n", 'line 2: committed: "1.5": must be a whole number of machines'),
        ("type,price,committedPrice\nm,1,1\n", "line 1: committedPrice needs the column committed"),
        ("type,price,committed,committedPrice\nm,1,,1\n", "line 2: committed: must be set beside committedPrice"),
        ('type,price\n"m,1\n', "prices.csv: line 2: not valid CSV"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, message: str) -> None:
    """And with the column as the file calls it."""
    with pytest.raises(InputError) as caught:
        book(text)
    assert message in str(caught.value)


def test_a_currency_other_than_the_simulations_is_refused() -> None:
    """Nobody converts."""
    with pytest.raises(InputError, match=r'"EUR": spec\.prices\.currency is USD; amounts are not converted'):
        book("type,price,currency\nm,1,EUR\n", "USD")


# ---- commitments -----------------------------------------------------------------------------------------------------


def test_committed_machines_are_paid_whether_used_or_not() -> None:
    """Three at 0.25: nothing runs 0.75; two run 0.75; five run 0.75 and twice the price of 0.5."""
    found = book("type,price,committed,committedPrice\nm,0.5,3,0.25\n")
    assert found.commitments == (Commitment(Offering("m", "", ""), 3, 0.25),)
    assert [found.rate({M: count}) for count in (0, 2, 3, 5)] == [0.75, 0.75, 0.75, 1.75]


def test_a_commitment_without_a_price_of_its_own_has_that_of_the_row() -> None:
    """After the discount."""
    found = book("type,price,discount,committed\nm,0.5,20%,2\n")
    assert found.rate({M: 1}) == pytest.approx(0.8)
    assert found.rate({M: 3}) == pytest.approx(1.2)


def test_a_commitment_covers_what_is_dearest_and_no_spot() -> None:
    """Zone b at 2 before zone a at 1; the spot machine stays at 0.25."""
    found = book(
        "type,zone,capacityType,price,committed,committedPrice\nm,,,9,1,0.5\nm,a,on-demand,1,,\nm,b,on-demand,2,,\nm,,spot,0.25,,\n"
    )
    running = {Offering("m", "a", "on-demand"): 1, Offering("m", "b", "on-demand"): 1, M_SPOT: 1}
    assert found.rate(running) == 0.5 + 1 + 0.25


def test_a_commitment_covers_spot_machines_only_where_its_row_says_so() -> None:
    """Two for 0.5 each, and a spot machine for 1: paid beside them, or one of them."""
    assert book("type,price,committed,committedPrice\nm,1,2,0.5\n").rate({M_SPOT: 1}) == 2
    assert book("type,capacityType,price,committed,committedPrice\nm,spot,1,2,0.5\n").rate({M_SPOT: 1}) == 1


def test_what_is_committed_to_has_a_price_per_month_where_the_others_have() -> None:
    """730 hours for 36.5."""
    (found,) = book("type,pricePerMonth,committed,committedPrice\nm,73,1,36.5\n").commitments
    assert found.price == pytest.approx(0.05)


def test_prices_that_the_book_does_not_have_come_from_elsewhere() -> None:
    """List prices of instance types; without any, it is an error of the caller."""
    found = book("type,price\nm,1\n")
    assert found.rate({M: 1, C: 2}, {C: 3.0}) == 7
    with pytest.raises(KeyError):
        found.rate({C: 1})


def test_cost_is_the_rate_over_time() -> None:
    """One m for an hour, a second one for half of it, beside a commitment of one: 1 h x 0.2 + 0.5 h x 1."""
    found = book("type,price,committed,committedPrice\nm,1,1,0.2\n")
    nodes = [NodeTime(M, 0, 3600), NodeTime(M, 1800, 5000)]
    assert found.cost(nodes, 3600) == pytest.approx(0.2 + 0.5)
    assert found.cost([], 7200) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=8), st.integers(1, 60))
def test_without_commitments_cost_is_node_time_by_price(nodes: list[tuple[int, int, bool]], until: int) -> None:
    """Each node by itself, cut at the end of the run."""
    found = PriceBook(rows=book("type,price\nm,3\nc,7\n").rows)
    lives = [NodeTime(M if is_m else C, min(a, b), max(a, b)) for a, b, is_m in nodes]
    expected = sum(
        (min(life.end, until) - min(life.start, until)) / 3600 * (3 if life.offering is M else 7) for life in lives
    )
    assert found.cost(lives, until) == pytest.approx(expected)


@given(st.integers(0, 9), st.floats(0, 2))
def test_more_machines_never_cost_less(committed: int, price: float) -> None:
    """Whatever is committed."""
    row = book("type,price\nm,1\n").rows
    found = PriceBook(rows=row, commitments=(Commitment(Offering("m", "", ""), committed, price),))
    rates = [found.rate({M: count}) for count in range(12)]
    assert all(low <= high for low, high in pairwise(rates))
