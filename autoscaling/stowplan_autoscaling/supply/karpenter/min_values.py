"""minValues: how many different values of a label the possible types of a claim must have together.

Follows InstanceTypes.SatisfiesMinValues of pkg/cloudprovider/types.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from .instance_types import InstanceType
from .requirements import Requirements


def unsatisfied(types: Sequence[InstanceType], requirements: Requirements) -> dict[str, int]:
    """Label -> how many values there are, for each that has too few. Without any type nothing is missing."""
    found: dict[str, int] = {}
    if not types:
        return found
    for requirement in requirements:
        if requirement.min_values is None:
            continue
        values = {
            value for item in types for value in item.requirements.get(requirement.key).values if requirement.has(value)
        }
        if len(values) < requirement.min_values:
            found[requirement.key] = len(values)
    return found


def types_needed(types: Sequence[InstanceType], requirements: Requirements) -> int:
    """How many types from the front of the list have enough values together; all, if even they have not."""
    if not requirements.has_min_values:
        return 0
    for count in range(1, len(types) + 1):
        if not unsatisfied(types[:count], requirements):
            return count
    return len(types)
