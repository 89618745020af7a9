"""The command line: `stowplan COMMAND`. One module per command; a command imports what it needs when it runs.

`stowplan --help` must be quick, so nothing here may import numpy, pydantic or rich at the top of a module.

Exit codes, for all commands: 0 it ran (whatever the result says); 1 it could not be finished; 2 the input or the
arguments cannot be used. Errors are single lines on standard error that begin with "stowplan: error:".
"""

from __future__ import annotations

import click

from stowplan_scheduler import __version__

from .application import Application, CommandSource

COMMANDS = (
    CommandSource("simulate", "stowplan_operator.cli.simulate", "what scheduler configurations would do to a cluster"),
    CommandSource(
        "compare", "stowplan_operator.cli.compare", "which of several settings is better: cost, waiting, risk"
    ),
    CommandSource("operator", "stowplan_operator.cli.operator", "have SchedulerProfiles run on a cluster"),
    CommandSource("worker", "stowplan_operator.cli.worker", "run scheduler profiles on a cluster"),
    CommandSource("story", "stowplan_operator.cli.story", "what a worker did with one pod"),
    CommandSource("profile", "stowplan_operator.cli.profile", "convert, check and compare scheduler profiles"),
    CommandSource("bench", "stowplan_operator.cli.bench", "how fast the scheduler is"),
)
"""A command whose module is not there is not offered."""


@click.command(
    cls=Application,
    commands_from=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 it ran; 1 it could not be finished; 2 the input or the arguments cannot be used.",
)
@click.version_option(__version__, "--version", message="%(prog)s %(version)s", prog_name="stowplan")
def cli() -> None:
    """Shows what a scheduler profile does to a cluster before it is applied."""


def main() -> None:
    """The entry point `stowplan`."""
    cli(prog_name="stowplan")
