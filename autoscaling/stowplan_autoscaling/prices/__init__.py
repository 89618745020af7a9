"""What machines cost: a price book of one's own with its commitments, and the catalogue of Karpenter's kwok provider.

book = read_price_book(stream, "prices.csv")
book.price("m-4x", "zone-a", "spot")              # per hour, after the discount; None: the book says nothing
book.rate({Offering("m-4x", "", "on-demand"): 3}) # per hour for so many at once, commitments included
"""

from __future__ import annotations

from .book import NO_PRICES, Commitment, NodeTime, Offering, PriceBook, PriceRow
from .catalog import CatalogOffer, CatalogType, read_catalog
from .reader import HOURS_PER_MONTH, read_price_book

__all__ = [
    "HOURS_PER_MONTH",
    "NO_PRICES",
    "CatalogOffer",
    "CatalogType",
    "Commitment",
    "NodeTime",
    "Offering",
    "PriceBook",
    "PriceRow",
    "read_catalog",
    "read_price_book",
]
