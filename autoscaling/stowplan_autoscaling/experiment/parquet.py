"""The tables of a comparison and of all of its runs as Parquet, where pyarrow is installed (extra `parquet`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from stowplan_autoscaling.results.parquet import write_parquet
from stowplan_autoscaling.results.records import SUMMARY_FILE, TABLES

from .comparison import TABLE_FILE, ComparisonReport


def write_comparison_parquet(report: ComparisonReport, root: str) -> None:
    """Beside the CSV files; runs that have them already are left alone."""
    for candidate in report.candidates:
        for run in candidate.runs:
            folder = Path(root, run.folder)
            if run.is_complete and not _is_there(folder):
                write_parquet(str(folder))
    arrow, csv, parquet = (import_module(f"pyarrow{part}") for part in ("", ".csv", ".parquet"))
    path = Path(root, TABLE_FILE)
    types = {
        "candidate": arrow.string(),
        "seed": arrow.int64(),
        "metric": arrow.string(),
        "unit": arrow.string(),
        "value": arrow.float64(),
    }
    read = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False))
    parquet.write_table(read, path.with_suffix(".parquet"), compression="zstd")


def _is_there(folder: Path) -> bool:
    """Whether all tables have been written since the run ended."""
    try:
        ended = (folder / SUMMARY_FILE).stat().st_mtime
        return all((folder / name).with_suffix(".parquet").stat().st_mtime >= ended for name in TABLES.values())
    except OSError:
        return False
