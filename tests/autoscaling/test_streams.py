"""Named random streams: the same luck for the same name, whatever else is drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.streams import Streams


def test_a_stream_does_not_depend_on_what_others_drew() -> None:
    """Two candidates of a comparison differ in how many pulls there are; the arrivals of both are the same."""
    quiet, busy = Streams(7), Streams(7)
    busy.generator("pull", "node-1").random(1000)
    busy.uniform("boot", "web-1")
    assert quiet.generator("arrivals").random(5).tolist() == busy.generator("arrivals").random(5).tolist()


def test_a_generator_goes_on_where_it_was() -> None:
    """Asked for twice it is the same stream, not a new one from the beginning."""
    streams = Streams(1)
    first = streams.generator("pull", "a").random()
    assert streams.generator("pull", "a").random() != first
    assert Streams(1).generator("pull", "a").random() == first


def test_seed_purpose_and_key_all_matter() -> None:
    """Nine combinations, nine different numbers; ("ab", "c") is not ("a", "bc")."""
    names = [("ab", "c"), ("a", "bc"), ("abc", "")]
    found = {Streams(seed).uniform(*name) for seed in (1, 2, 12) for name in names}
    assert len(found) == 9


@given(st.integers(0, 2**63), st.text(max_size=8), st.text(max_size=8))
def test_a_uniform_number_is_in_the_half_open_interval_and_stays(seed: int, purpose: str, key: str) -> None:
    """Asked twice it is the same, in another run, too."""
    streams = Streams(seed)
    found = streams.uniform(purpose, key)
    assert 0.0 <= found < 1.0
    assert streams.uniform(purpose, key) == found == Streams(seed).uniform(purpose, key)


def test_uniform_numbers_are_spread_evenly() -> None:
    """10,000 names: the mean of uniform numbers has a standard error of 0.0029, and each tenth holds about 1,000
    (standard error 30).
    """
    streams = Streams(3)
    found = [streams.uniform("pull", f"pod-{number}") for number in range(10_000)]
    assert abs(sum(found) / len(found) - 0.5) < 0.012
    tenths = [sum(1 for one in found if int(one * 10) == tenth) for tenth in range(10)]
    assert all(880 < count < 1_120 for count in tenths)


def test_keys_that_begin_alike_have_the_numbers_that_they_have_anyway() -> None:
    """A stem saves the hashing of what they share."""
    streams = Streams(3)
    stem = streams.stem("delay", "n1#")
    for round in (0, 1, 0):
        assert stem.uniform(str(round)) == streams.uniform("delay", f"n1#{round}")
