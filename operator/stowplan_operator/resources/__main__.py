"""Writes what is in crds/, or prints the reference: `python -m stowplan_operator.resources crds FOLDER | reference`."""

from __future__ import annotations

import sys
from pathlib import Path

from stowplan_autoscaling.resources import schema_text

from .definitions import KINDS, definition_text
from .reference import profile_reference

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["crds", folder] if Path(folder).is_dir():
            texts = {**{kind.file: definition_text(kind) for kind in KINDS}, "simulation.schema.json": schema_text()}
            for name, text in texts.items():
                (Path(folder) / name).write_text(text, encoding="utf-8")
        case ["reference"]:
            sys.stdout.write(profile_reference())
        case _:
            sys.exit("usage: python -m stowplan_operator.resources crds FOLDER | reference")
