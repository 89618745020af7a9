"""Prints the schema, the reference or the metrics of the kind: `python -m stowplan_autoscaling.resources WHAT`."""

from __future__ import annotations

import sys

from .measures import measures_text
from .schema import reference_text, schema_text

_TEXTS = {"schema": schema_text, "reference": reference_text, "metrics": measures_text}

if __name__ == "__main__":
    wanted = sys.argv[1:]
    if len(wanted) != 1 or wanted[0] not in _TEXTS:
        sys.exit(f"usage: python -m stowplan_autoscaling.resources {'|'.join(_TEXTS)}")
    sys.stdout.write(_TEXTS[wanted[0]]())
