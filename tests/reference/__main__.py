"""python -m reference: see oracle_lines."""

from __future__ import annotations

from .oracle_lines import main

main()
