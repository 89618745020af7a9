"""`stowplan story`: what a worker's log says about one pod, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import click

from .application import BadInput, Failure

LOGGER: Final = "stowplan.story"
COLUMNS: Final = ("TIME", "MOMENT", "ATTEMPT", "NODE", "PLACE", "WHAT")


@click.command(short_help="what a worker did with one pod")
@click.argument("pod", metavar="POD")
@click.option("-n", "--namespace", default="default", show_default=True, metavar="NS", help="Namespace of the pod.")
@click.option(
    "--log", "logs", multiple=True, required=True, metavar="FILE",
    help="Log of a worker in JSON; several are read as one, - is standard input.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def story(pod: str, namespace: str, logs: tuple[str, ...], output: str) -> None:
    """Print the events, attempts and effects of one pod, in order, from the logs of the workers that dealt with it.

    POD is a name, or namespace/name. A pod that was made anew under the same name is another pod: each has a part of
    its own. The worker must log in JSON (stowplan worker --log-format json, the default).

    \b
    Examples:
      stowplan story cart-7c9f -n shop --log worker.log
      kubectl logs -n stowplan-system deploy/stowplan-worker-default | stowplan story shop/cart-7c9f --log -

    \b
    Exit codes:
      0  the story was printed
      1  the logs say nothing about that pod
      2  a log cannot be read, or is no JSON log
    """  # noqa: D301 - click looks for the character \b
    key = pod if "/" in pod else f"{namespace}/{pod}"
    moments: list[dict[str, Any]] = []
    known: set[str] = set()
    for path in logs:
        with _opened(path) as file:
            for moment in _moments(file, path):
                known.add(str(moment["pod"]))
                if moment["pod"] == key:
                    moments.append(moment)
    if not moments:
        raise Failure(_nothing(key, known))
    # Each log is in order; of several, the time decides.
    moments.sort(key=lambda moment: str(moment.get("ts", "")))
    if output == "json":
        click.echo(json.dumps(moments, indent=2))
        return
    for uid in dict.fromkeys(str(moment.get("uid", "")) for moment in moments):
        click.echo(f"pod {key}, UID {uid}")
        click.echo(_table([_row(moment) for moment in moments if moment.get("uid", "") == uid]))


def _opened(path: str) -> IO[str]:
    if path == "-":
        if sys.stdin is None:
            raise BadInput("standard input is closed")
        # Not closed with the block's end: it is not ours.
        return open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False)
    try:
        return Path(path).open(encoding="utf-8", errors="replace")
    except OSError as error:
        message = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise BadInput(f"{path}: {message}") from None


def _moments(file: IO[str], path: str) -> Iterator[dict[str, Any]]:
    """The moments in a log. Lines of other programs may stand in between, as in the output of a container."""
    lines = objects = 0
    for line in file:
        lines += bool(line.strip())
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if not isinstance(found, dict):
            continue
        objects += 1
        if found.get("logger") == LOGGER and "pod" in found:
            yield found
    if lines and not objects:
        raise BadInput(f"{path}: holds no JSON lines: the worker must log with --log-format json")


def _nothing(key: str, known: Iterable[str]) -> str:
    name = key.partition("/")[2]
    same = sorted(other for other in known if other.partition("/")[2] == name)
    hint = f"; there is {', '.join(same[:3])}" if same else ""
    return f"the log says nothing about pod {key}{hint}"


def _row(moment: dict[str, Any]) -> tuple[str, ...]:
    attempt = moment.get("attempt", 0)
    return (
        str(moment.get("ts", "")).partition("T")[2].rstrip("Z"),
        str(moment.get("moment", "")),
        str(attempt) if attempt else "",
        str(moment.get("node", "")),
        str(moment.get("place", "")),
        _what(moment),
    )


def _what(moment: dict[str, Any]) -> str:
    """The message, with the answer's status before it where there is one."""
    parts = []
    if moment.get("status") is not None:
        parts.append({0: "no answer", -1: "not sent"}.get(moment["status"], str(moment["status"])))
    if moment.get("message"):
        parts.append(str(moment["message"]))
    return ": ".join(parts)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as what stands in them; the last one is never cut."""
    widths = [max(len(row[column]) for row in (COLUMNS, *rows)) for column in range(len(COLUMNS) - 1)]
    lines = []
    for row in (COLUMNS, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join((*cells, row[-1])).rstrip())
    return "\n".join(lines)
