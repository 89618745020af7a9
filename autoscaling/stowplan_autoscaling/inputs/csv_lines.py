"""Rows of CSV text with their lines; what is not CSV becomes an InputError that names the line."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from .errors import InputError


def csv_lines(text: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of the rows that are not empty. Raises InputError for text that is not CSV, or not UTF-8."""
    reader = csv.reader(text, strict=True)
    line = 0
    try:
        for cells in reader:
            line = reader.line_num
            if cells:
                yield line, cells
    except csv.Error as error:
        raise InputError(f"{source}: line {line + 1}", "", "", f"not valid CSV: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{source}: line {line + 1}", "", "", "not UTF-8 text: input must be UTF-8") from None
