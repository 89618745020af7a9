"""The tables of a results folder as Parquet beside the CSV files, where pyarrow is installed (it is no dependency)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .records import TABLES, Row, Waiting


def is_available() -> bool:
    """Whether pyarrow is there."""
    return find_spec("pyarrow") is not None


def write_parquet(folder: str) -> list[str]:
    """Writes a .parquet file for each table of a finished folder; returns their paths."""
    csv, parquet = import_module("pyarrow.csv"), import_module("pyarrow.parquet")
    written = []
    for table, name in TABLES.items():
        path = Path(folder, name)
        types = _column_types(table)
        read = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False))
        target = str(path.with_suffix(".parquet"))
        parquet.write_table(read, target, compression="zstd")
        written.append(target)
    return written


def _column_types(table: type[Row]) -> dict[str, Any]:
    """From the annotations of the fields, so that an empty column has its type, too."""
    arrow = import_module("pyarrow")
    types: dict[str, Any] = {f"waiting_{part}": arrow.float64() for part in Waiting._fields}
    for name, annotation in table.__annotations__.items():
        text = str(getattr(annotation, "__forward_arg__", annotation))
        kind = arrow.float64() if "float" in text else arrow.int64() if "int" in text else arrow.string()
        types[name] = kind
    return types
