"""Shapes of pods as they are written on a command line."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.placement import ShapeError, parse_shape


def test_amounts_are_in_the_schedulers_units() -> None:
    """Milli cores, bytes, counts."""
    shape = parse_shape("cpu=1.5, memory=4Gi,example.com/gpu=2")
    assert shape.amounts == (("cpu", 1500), ("memory", 4 << 30), ("example.com/gpu", 2))
    assert str(shape) == "cpu=1500m,memory=4Gi,example.com/gpu=2"


BAD = {
    "": '"": must be resource=quantity, as in cpu=1,memory=4Gi',
    "cpu": '"cpu": must be resource=quantity',
    "cpu=1,": '"": must be resource=quantity',
    "cpu=1,cpu=2": "cpu: occurs twice",
    "cpu=one": 'cpu: "one": quantities must match the regular expression',
    "memory=0": 'memory: "0": must be greater than 0',
    "memory=-1Gi": 'memory: "-1Gi": must be greater than 0',
    "memory=99E": 'memory: "99E": must be greater than 0 and fit into 63 bits',
    "disk=1": '"disk": must be cpu, memory, ephemeral-storage or an extended resource',
    "pods=1": '"pods": must be cpu, memory, ephemeral-storage or an extended resource',
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_shape_is_refused_with_what_is_allowed(text: str) -> None:
    """It comes from a person."""
    with pytest.raises(ShapeError) as caught:
        parse_shape(text)
    assert str(caught.value).startswith(BAD[text])
