"""What of a price book a simulation cannot use: a name that is written another way leaves machines without a price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.prices import PriceBook
from stowplan_autoscaling.supply.pools import INSTANCE_TYPE_LABEL

from .manifests import Manifest
from .simulation import SimulationSpec

_MOST_NAMES: Final = 5


def unused_prices(
    book: PriceBook, specs: Iterable[SimulationSpec], catalog: Iterable[str], objects: Sequence[Manifest]
) -> Iterator[str]:
    """Warnings: columns that mean nothing, and instance types that occur nowhere.

    specs: where types may stand, that of the simulation and that with a candidate's changes. catalog: names of its
    types.
    """
    if not book.rows:
        return
    if book.unused_columns:
        yield f"spec.prices.file: columns that mean nothing here: {_listed(book.unused_columns)}"
    known = {*catalog, *(_label(manifest) for manifest in objects if manifest.kind == "Node")}
    for spec in specs:
        known |= {each.name for each in spec.instance_types}
        known |= {group.instance_type for group in spec.cluster.node_groups}
        # What other candidates have is known, too: one book serves all of them.
        known |= set(_texts([candidate.spec for candidate in spec.candidates]))
    unknown = list(dict.fromkeys(each.instance_type for each in book.rows if each.instance_type not in known))
    if unknown:
        paid = {each.offering.instance_type for each in book.commitments} & set(unknown)
        yield (
            f"spec.prices.file: instance types that the simulation has nowhere: {_listed(unknown)}"
            f"{'; machines committed to are paid for all the same' if paid else ''}"
        )


def _label(node: Manifest) -> str:
    labels = (node.value.get("metadata") or {}).get("labels") or {}
    return str(labels.get(INSTANCE_TYPE_LABEL, ""))


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain values, keys of mappings included."""
    if isinstance(value, dict):
        yield from map(str, value)
        yield from _texts(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown, names[:_MOST_NAMES])) + more
