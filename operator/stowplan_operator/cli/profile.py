"""`stowplan profile`: convert, check and compare scheduler profiles in files, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stowplan_operator.net import UrlRules

from .application import BadInput, reader_may_leave
from .url_options import url_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan_operator.resources.convert import Converted, Naming
    from stowplan_operator.resources.profile_files import ProfileDocument
    from stowplan_scheduler.framework.handle import PluginFactory

PROFILE = "schedulerprofile"
CONFIGURATION = "kubeschedulerconfiguration"


@click.group(short_help="convert, check and compare scheduler profiles", no_args_is_help=True)
def profile() -> None:
    """Scheduler profiles in files: SchedulerProfiles (stowplan.io/v1alpha1) and KubeSchedulerConfigurations (v1).

    A FILE is YAML or JSON with one or more of either kind, or a List of them as kubectl get -o yaml prints it; - stands
    for standard input.

    \b
    Examples:
      stowplan profile convert /etc/kubernetes/scheduler.yaml --name dense | kubectl apply -f -
      stowplan profile lint profiles/*.yaml
      kubectl get sprof dense -o yaml | stowplan profile diff - examples/profiles/pack.yaml
    """  # noqa: D301 - click looks for the character \b


# ---- convert ---------------------------------------------------------------------------------------------------------


@profile.command(short_help="from kube-scheduler's configuration to SchedulerProfiles, or back")
@click.argument("file")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@click.option(
    "--to", type=click.Choice([PROFILE, CONFIGURATION], case_sensitive=False),
    help="The kind to make. Default: the one that FILE is not.",
)  # fmt: skip
@click.option(
    "--name", metavar="NAME", help="To SchedulerProfiles: schedulerName, and name, of the only profile of FILE."
)
@click.option(
    "--take-over", is_flag=True,
    help="To SchedulerProfiles: keep the name default-scheduler and set takeOver, for when kube-scheduler is gone.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Do not say what is left out.")
def convert(file: str, output: str, to: str | None, name: str | None, take_over: bool, quiet: bool) -> None:
    """Turn a KubeSchedulerConfiguration into SchedulerProfiles, or the other way round.

    The profiles keep their words: what is written out stays written out, and defaults stay defaults. What the other
    kind has no place for, such as leader election or rollout, is left out and named on standard error.

    \b
    Examples:
      stowplan profile convert scheduler.yaml --name dense
      stowplan profile convert scheduler.yaml --take-over -o json
      kubectl get sprof -o yaml | stowplan profile convert - --to kubeschedulerconfiguration

    \b
    Exit codes:
      0  it is converted
      2  FILE cannot be read or converted, or the arguments cannot be used
    """  # noqa: D301 - click looks for the character \b
    from stowplan_operator.resources.convert import Naming
    from stowplan_operator.resources.scheduler_profile import DEFAULT_SCHEDULER

    from .configurations import third_party_plugins

    if take_over and name not in {None, DEFAULT_SCHEDULER}:
        raise click.BadParameter(
            f"is about {DEFAULT_SCHEDULER}, and --name calls the profile {name}", param_hint="--take-over"
        )
    documents = _documents(file)
    target = to.lower() if to else PROFILE if documents[0].is_configuration else CONFIGURATION
    _check_kinds(documents, target, bool(name) or take_over)
    naming = Naming(name=name or "", take_over=take_over)
    converted = _converted(documents, target, naming, third_party_plugins())
    _print_documents(converted.documents, output)
    if not quiet:
        for note in converted.notes:
            click.echo(f"stowplan: note: {documents[0].place}: {note}", err=True)


def _check_kinds(documents: Sequence[ProfileDocument], target: str, is_named: bool) -> None:
    """Raises BadInput for files of several kinds, or of the kind that is wanted."""
    for document in documents:
        if document.is_configuration != (target == PROFILE):
            raise BadInput(f"{document.place}: is a {document.kind}: nothing to convert to {target}")
    if target == PROFILE and len(documents) > 1:
        raise BadInput(f"{documents[1].place}: one KubeSchedulerConfiguration at a time")
    if target == CONFIGURATION and is_named:
        raise click.UsageError("--name and --take-over are for conversions to SchedulerProfiles")


def _converted(
    documents: Sequence[ProfileDocument], target: str, naming: Naming, third_party: Mapping[str, PluginFactory]
) -> Converted:
    from stowplan_operator.resources.convert import to_configuration, to_profiles
    from stowplan_operator.resources.lint import lint
    from stowplan_operator.resources.problems import ProfileError
    from stowplan_operator.resources.reading import read_profile
    from stowplan_scheduler.config import ConfigurationError
    from stowplan_scheduler.profiles import plugin_traits

    _refuse_findings(documents, third_party)
    try:
        if target == CONFIGURATION:
            return to_configuration([read_profile(document.value) for document in documents])
        converted = to_profiles(documents[0].value, naming, plugin_traits(third_party))
    except (ConfigurationError, ProfileError) as error:
        hint = " (--name NAME, or --take-over)" if "taken over" in str(error) else ""
        raise BadInput(f"{documents[0].place}: {error}{hint}") from None
    made = [_made(documents[0].place, value) for value in converted.documents]
    findings = [finding for finding in lint(made, third_party) if finding.problem.field != _EXTENDERS]
    if findings:
        raise BadInput(*map(str, findings))
    return converted


_EXTENDERS = "spec.extenders"


def _made(place: str, value: dict[str, Any]) -> ProfileDocument:
    from stowplan_operator.resources.profile_files import ProfileDocument

    return ProfileDocument(f"{place}: {value['metadata']['name']}", value["kind"], value)


def _refuse_findings(documents: Sequence[ProfileDocument], third_party: Mapping[str, PluginFactory]) -> None:
    """Raises BadInput with all that is wrong, but for extenders, which can be converted."""
    from stowplan_operator.resources.lint import lint

    findings = [
        finding for finding in lint(documents, third_party) if finding.problem.field not in {"extenders", _EXTENDERS}
    ]
    if findings:
        raise BadInput(*map(str, findings))


# ---- lint ------------------------------------------------------------------------------------------------------------


@profile.command(short_help="everything that is wrong, with its field")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@url_options
@click.option(
    "--resolve-urls", is_flag=True,
    help="Also look up where URLs lead, as seen from here. Without it only their texts are checked.",
)  # fmt: skip
@click.pass_context
def lint(ctx: click.Context, files: tuple[str, ...], output: str, resolve_urls: bool, urls: UrlRules) -> None:
    """Say everything that is wrong with profiles, with the field of each finding.

    A SchedulerProfile is checked as the API server and the operator check it: types and ranges, the rules of its
    definition, every plugin, and the args of every plugin. Profiles of all files are also checked against each other:
    two with one schedulerName, or two that want different workers for one group. URLs are checked as an operator with
    the same --allow-url options checks them.

    \b
    Examples:
      stowplan profile lint examples/profiles/pack.yaml
      kubectl get sprof -o yaml | stowplan profile lint -
      stowplan profile lint profiles/*.yaml -o json

    \b
    Exit codes:
      0  nothing is wrong
      1  something is wrong
      2  a file cannot be read, or is of another kind
    """  # noqa: D301 - click looks for the character \b
    from stowplan_operator.resources.lint import lint as all_findings

    from .configurations import third_party_plugins

    documents = [document for file in files for document in _documents(file)]
    findings = all_findings(documents, third_party_plugins(), urls)
    if resolve_urls:
        from .profile_urls import unreachable

        findings += unreachable(documents, urls)
    with reader_may_leave():
        if output == "table":
            for finding in findings:
                click.echo(str(finding))
            if not findings:
                click.echo(f"{len(documents)} object{'s' * (len(documents) > 1)}: nothing is wrong")
        else:
            rows = [
                {"place": finding.place, "field": finding.problem.field, "message": finding.problem.message}
                for finding in findings
            ]
            _print_value({"objects": len(documents), "findings": rows}, output)
    ctx.exit(1 if findings else 0)


# ---- diff ------------------------------------------------------------------------------------------------------------


@profile.command(short_help="what two profiles do differently")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, output: str) -> None:
    """Show what the profiles of two files do differently: plugins at each point, weights, args, after defaults.

    Each file may be of either kind. Profiles are compared by schedulerName; if there is one in each file, these two.
    How a profile is run (rollout, workers) counts if both are SchedulerProfiles.

    \b
    Examples:
      stowplan profile diff examples/profiles/spread.yaml examples/profiles/pack.yaml
      kubectl get sprof dense -o yaml | stowplan profile diff - dense.yaml

    \b
    Exit codes, as diff has them:
      0  they do the same
      1  they differ
      2  a file cannot be read or used
    """  # noqa: D301 - click looks for the character \b
    from .configurations import STDIN
    from .profile_diff import compare, print_table

    if before == after == STDIN:
        raise click.UsageError("A and B cannot both be standard input")
    first, second = _documents(before), _documents(after)
    pairs = compare(first, second)
    with reader_may_leave():
        if output == "table":
            print_table(pairs, before, after)
        else:
            _print_value({"profiles": [pair.as_value() for pair in pairs]}, output)
    ctx.exit(1 if any(pair.is_different for pair in pairs) else 0)


# ---- files and documents ---------------------------------------------------------------------------------------------


def _documents(file: str) -> list[ProfileDocument]:
    """The profiles of a file. Raises BadInput."""
    from stowplan_autoscaling.inputs.errors import InputError
    from stowplan_operator.resources.profile_files import read_documents

    from .configurations import STDIN, read_text

    try:
        return read_documents(read_text(file), "standard input" if file == STDIN else file)
    except InputError as error:
        raise BadInput(str(error)) from None


def _print_documents(documents: Sequence[Mapping[str, Any]], output: str) -> None:
    """Documents in a row; several in JSON are a List, as kubectl has them."""
    if output == "yaml":
        for index, document in enumerate(documents):
            if index:
                click.echo("---")
            _print_value(document, output)
        return
    several = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    _print_value(documents[0] if len(documents) == 1 else several, output)


def _print_value(value: Mapping[str, Any], output: str) -> None:
    """As bytes, since both are UTF-8 whatever the terminal's encoding."""
    if output == "json":
        import json

        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    click.echo(text.encode(), nl=False)
