"""Reports as documents on standard output: -o json and -o yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import msgspec

    from stowplan_autoscaling.results.report import ReportPart


def print_document(report: ReportPart, output: str) -> None:
    """JSON as the files of results are, or YAML; as bytes, since both are UTF-8 whatever the terminal's encoding."""
    if output == "yaml":
        print_yaml(report)
        return
    from stowplan_autoscaling.results import report_bytes

    click.echo(report_bytes(report), nl=False)


def print_yaml(report: msgspec.Struct) -> None:
    """The same fields in the same order."""
    import msgspec
    import yaml

    text = yaml.safe_dump(msgspec.to_builtins(report), sort_keys=False, allow_unicode=True, width=120)
    click.echo(text.encode(), nl=False)
