"""A chain of expanders: each narrows the options down until one is left; a tie at the end is broken by chance.

Follows pkg/expander/factory of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from numpy.random import Generator

from .base import ExpanderError, Filter, Option, PodPrices
from .price import cheapest
from .priority import by_priority
from .simple import least_nodes, most_pods
from .waste import least_waste

RANDOM: Final = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpanderContext:
    """What some expanders need: `priorities` is the text of the priority expander's ConfigMap.

    `rng`: breaks ties; None: the first option wins.
    """

    pod_prices: PodPrices | None = None
    priorities: str = ""
    rng: Generator | None = None


class ExpanderChain:
    """The expanders of --expander."""

    def __init__(self, names: Sequence[str], context: ExpanderContext) -> None:
        """Raises ExpanderError for a name that is unknown, comes twice, or comes after `random`."""
        self._context = context
        self._names: list[str] = []
        self._by_priority = by_priority(context.priorities)
        for index, name in enumerate(names):
            self._check(name, index, names)
            self._names.append(name)

    def _check(self, name: str, index: int, names: Sequence[str]) -> None:
        if name in self._names:
            raise ExpanderError(
                f"Expander {name} was specified multiple times, each expander must not be specified more than once"
            )
        if RANDOM in self._names:
            raise ExpanderError(
                f"Expander {name} came after an expander {names[index - 1]} that will always return only one result, "
                f"this is not allowed since {name} will never be used"
            )
        if name not in {"least-waste", "most-pods", "least-nodes", "price", "priority", RANDOM}:
            raise ExpanderError(f"Expander {name} not supported")
        if name == "price" and self._context.pod_prices is None:
            raise ExpanderError("the price expander needs prices of pods")

    def best_option(self, options: Sequence[Option], cluster_size: int) -> Option | None:
        """The chosen option, None if the expanders drop all of them. `cluster_size`: registered nodes."""
        left = list(options)
        for name in self._names:
            left = self._filter(name, cluster_size)(left)
            if len(left) == 1:
                return left[0]
        return self._any(left)

    def _filter(self, name: str, cluster_size: int) -> Filter:
        if name == "price":
            prices = self._context.pod_prices
            assert prices is not None
            return lambda options: cheapest(options, prices, cluster_size)
        if name == "priority":
            return self._by_priority
        if name == RANDOM:
            return lambda options: [found] if (found := self._any(options)) is not None else []
        return _FILTERS[name]

    def _any(self, options: Sequence[Option]) -> Option | None:
        if not options:
            return None
        rng = self._context.rng
        return options[0 if rng is None else int(rng.integers(len(options)))]


_FILTERS: Final[dict[str, Filter]] = {
    "least-waste": least_waste,
    "most-pods": most_pods,
    "least-nodes": least_nodes,
}
