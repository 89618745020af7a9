"""The group of commands: commands are loaded when they are asked for, and errors are single lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from typing import IO, Any, NoReturn

import click

from stowplan_autoscaling.one_line import one_line

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of the signal, as shells do it."""


@dataclass(frozen=True, slots=True)
class CommandSource:
    """Where a command is: its module has a click command of the same name. `summary` is shown in the list."""

    name: str
    module: str
    summary: str


class Failure(click.ClickException):
    """What was asked for could not be finished; one line per entry."""

    exit_code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def show(self, file: IO[Any] | None = None) -> None:
        """Each line by itself on standard error."""
        for line in self.lines:
            click.echo(f"stowplan: error: {one_line(line)}", err=True, file=file)


class BadInput(Failure):
    """The input or the arguments cannot be used."""

    exit_code = 2


class Application(click.Group):
    """Commands by name, loaded late."""

    def __init__(self, *args: Any, commands_from: Sequence[CommandSource] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sources = {source.name: source for source in commands_from}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those whose modules are there, in the order in which they were given."""
        return [name for name, source in self._sources.items() if find_spec(source.module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; its module is imported."""
        source = self._sources.get(cmd_name)
        if source is None or find_spec(source.module) is None:
            return None
        command = getattr(import_module(source.module), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{source.module}.{cmd_name} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any of them."""
        rows = [(name, self._sources[name].summary) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """As click's; where the reader of a pipe has gone, `main` ends it. Click itself would exit with 1 at once."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeftError from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's, but with errors in one line, and with a quiet end where the reader of a pipe has gone."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if sys.stdout is None:
            click.echo("stowplan: error: standard output is closed", err=True)
            sys.exit(Failure.exit_code)
        if isinstance(sys.stdout, TextIOWrapper):
            # Names of pods and nodes are shown as well as the terminal's encoding allows.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except Failure as failure:
            failure.show()
            sys.exit(failure.exit_code)
        except click.ClickException as failure:
            _refuse(failure)
        except click.Abort:
            click.echo("stowplan: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except (BrokenPipeError, _ReaderLeftError):
            # Who reads no further has seen enough.
            _drop_output()
            code = 0
        except OSError as failure:
            # Inputs report their own errors; what is left is a full disk behind standard output.
            _drop_output()
            where = "" if failure.filename is None else f"{failure.filename}: "
            click.echo(f"stowplan: error: {one_line(where)}cannot be written: {failure.strerror}", err=True)
            code = Failure.exit_code
        sys.exit(code if isinstance(code, int) else 0)


class _ReaderLeftError(Exception):
    """Nobody reads standard output any more."""


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """For output of commands whose exit code says more: it stays what it is if the reader of a pipe leaves."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Python flushes standard output once more when it ends, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(failure: click.ClickException) -> NoReturn:
    """A wrong argument: what click says, and where to read on. No argument at all: the help."""
    if isinstance(failure, click.exceptions.NoArgsIsHelpError):
        failure.show()
    else:
        click.echo(f"stowplan: error: {''.join(_usage(failure))}", err=True)
    sys.exit(failure.exit_code)


def _usage(failure: click.ClickException) -> Iterator[str]:
    yield one_line(failure.format_message().strip().replace("\n", " "))
    if isinstance(failure, click.UsageError) and failure.ctx is not None:
        yield f" (see {failure.ctx.command_path} --help)"
