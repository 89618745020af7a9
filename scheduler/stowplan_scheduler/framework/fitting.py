"""Where pods can go as far as it depends on single nodes, kept from one search to the next.

Pods of many templates meet the same rules: plans whose NODE and ROW rules are the same share one of these. After a pod
was placed most often no verdict has changed, and neither has the list of rows that fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .diagnosis import Verdicts
    from .memo import NodeMask, RowBundle

RowArray = NDArray[np.intp]


class FittingRows:
    """The rows that all NODE and ROW rules of a plan let pass, with the entries `mask` and `bundle` that say so.

    `refused`: what the rules say of all rows, worked out by a search that found none of them; None as long as it is not
    known for the rows as they are.
    """

    __slots__ = ("_rows", "_seen", "bundle", "mask", "refused")

    def __init__(self, mask: NodeMask, bundle: RowBundle) -> None:
        """Nothing known yet."""
        self.mask = mask
        self.bundle = bundle
        self._seen = (-1, -1)
        self._rows: RowArray | None = None
        self.refused: Verdicts | None = None

    def rows(self) -> RowArray | None:
        """In ascending order; None while some row was never looked at. Refresh mask and bundle first; do not change."""
        mask, bundle = self.mask, self.bundle
        if not bundle.is_complete:
            return None
        seen = mask.version, bundle.version
        if self._seen != seen:
            fits = bundle.verdicts == 0
            if mask.passing is not None:
                fits &= mask.passing
            self._rows = fits.nonzero()[0]
            self._seen = seen
            self.refused = None
        return self._rows

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return 0 if self._rows is None else self._rows.nbytes
