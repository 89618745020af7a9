"""`stowplan profile`: convert, lint and diff, on files of both kinds."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan_operator.cli import cli
from stowplan_operator.resources import profile_hash, read_profile
from support.processes import environment
from support.profiles import profile, profile_object

CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 40,
    "podMaxBackoffSeconds": 20,
    "leaderElection": {"leaderElect": True},
    "profiles": [
        {
            "plugins": {
                "filter": {"enabled": [{"name": "NodeName", "weight": 7}]},
                "score": {"disabled": [{"name": "ImageLocality"}]},
            },
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
        }
    ],
}
"""The default scheduler, packing; with settings that are not of a profile."""


def run(*arguments: str | Path, stdin: str = "") -> Result:
    """The command in this process; its standard output and standard error are apart."""
    return CliRunner().invoke(cli, ["profile", *map(str, arguments)], input=stdin, prog_name="stowplan")


def written(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def scheduler(tmp_path: Path) -> Path:
    return written(tmp_path / "scheduler.yaml", CONFIGURATION)


# ---- convert ---------------------------------------------------------------------------------------------------------


def test_a_configuration_becomes_a_profile_with_its_own_words(scheduler: Path) -> None:
    result = run("convert", scheduler, "--name", "dense")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": "dense"},
        "spec": {
            "schedulerName": "dense",
            "percentageOfNodesToScore": 40,
            "plugins": {
                "filter": {"enabled": [{"name": "NodeName"}]},
                "score": {"disabled": [{"name": "ImageLocality"}]},
            },
            "pluginConfig": CONFIGURATION["profiles"][0]["pluginConfig"],
        },
    }


def test_what_is_left_out_is_named_on_standard_error(scheduler: Path) -> None:
    """leaderElection says what is the default anyway, so nothing is lost with it."""
    result = run("convert", scheduler, "--name", "dense")
    note = f"stowplan: note: {scheduler}: "
    assert result.stderr.splitlines() == [
        (
            f"{note}podMaxBackoffSeconds: is left out: all profiles of a worker share one back-off, which "
            f"is the default one"
        ),
        f"{note}profiles[0].plugins.filter.enabled[0].weight: is left out: it has no effect there",
    ]
    assert run("convert", scheduler, "--name", "dense", "-q").stderr == ""


def test_the_name_of_kube_scheduler_is_not_taken_by_the_way(scheduler: Path) -> None:
    result = run("convert", scheduler)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f'stowplan: error: {scheduler}: profiles[0].schedulerName: "default-scheduler": kube-scheduler binds the pods '
        "of this name: give it another one, or say that it is taken over (--name NAME, or --take-over)\n"
    )
    taken = yaml.safe_load(run("convert", scheduler, "--take-over").stdout)
    assert taken["spec"]["schedulerName"] == "default-scheduler"
    assert taken["spec"]["takeOver"] is True


def test_several_profiles_become_several_documents_and_in_json_a_list(tmp_path: Path) -> None:
    several = {**CONFIGURATION, "profiles": [{"schedulerName": "dense"}, {"schedulerName": "sparse"}]}
    path = written(tmp_path / "several.yaml", several)
    documents = list(yaml.safe_load_all(run("convert", path).stdout))
    assert [document["metadata"]["name"] for document in documents] == ["dense", "sparse"]
    as_list = json.loads(run("convert", path, "-o", "json").stdout)
    assert (as_list["kind"], as_list["items"]) == ("List", documents)
    result = run("convert", path, "--name", "one")
    assert (result.exit_code, "there are 2 profiles: one name is not enough" in result.stderr) == (2, True)


def test_profiles_become_one_configuration_and_the_way_back_is_the_same(tmp_path: Path) -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    running = {"rollout": {"mode": "Shadow"}, "workers": {"group": "trial"}}
    path = written(
        tmp_path / "profiles.yaml",
        profile_object("dense", scoringStrategy=strategy, **running),
        profile_object("sparse"),
    )
    result = run("convert", path)
    assert result.exit_code == 0
    configuration = yaml.safe_load(result.stdout)
    assert configuration["kind"] == "KubeSchedulerConfiguration"
    assert [entry["schedulerName"] for entry in configuration["profiles"]] == ["dense", "sparse"]
    note = f"stowplan: note: {path}: document 1: dense: "
    assert result.stderr.splitlines() == [
        f"{note}spec.rollout.mode: Shadow is left out: kube-scheduler binds the pods",
        f"{note}spec.workers: is left out: a configuration does not say who runs it",
    ]
    back = list(yaml.safe_load_all(run("convert", "-", stdin=result.stdout).stdout))
    assert profile_hash(read_profile(back[0]).spec) == profile_hash(profile("dense", scoringStrategy=strategy).spec)


def test_extenders_are_converted_though_they_are_not_asked_yet(tmp_path: Path) -> None:
    extenders = [{"urlPrefix": "https://extender.example.com/", "filterVerb": "filter", "httpTimeout": "2s"}]
    path = written(tmp_path / "extended.yaml", {**CONFIGURATION, "extenders": extenders})
    made = yaml.safe_load(run("convert", path, "--name", "dense").stdout)
    assert made["spec"]["extenders"] == extenders
    back = yaml.safe_load(run("convert", "-", stdin=json.dumps(made)).stdout)
    assert back["extenders"] == extenders


def test_what_is_wrong_is_not_converted(tmp_path: Path) -> None:
    wrong = {**CONFIGURATION, "profiles": [{"schedulerName": "dense", "percentageOfNodesToScore": 101}]}
    result = run("convert", written(tmp_path / "wrong.yaml", wrong))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"stowplan: error: {tmp_path / 'wrong.yaml'}: profiles[0].percentageOfNodesToScore: Invalid value: 101: not in "
        "valid range [0-100]\n"
    )


def test_what_a_profile_cannot_say_is_not_converted(tmp_path: Path) -> None:
    """kube-scheduler takes any name; a SchedulerProfile's must fit into a label and the name of an object."""
    path = written(tmp_path / "odd.yaml", {**CONFIGURATION, "profiles": [{"schedulerName": "My_Scheduler"}]})
    result = run("convert", path)
    assert result.exit_code == 2
    assert 'spec.schedulerName: "My_Scheduler": must be lower case letters' in result.stderr
    assert run("convert", path, "--name", "my-scheduler").exit_code == 0


@pytest.mark.parametrize(
    ("profile_", "spec", "note"),
    [
        (None, {}, ""),
        ({"plugins": None, "pluginConfig": None}, {}, ""),
        ({"plugins": {"score": None}}, {"plugins": {}}, ""),
        (
            {"plugins": {"score": {"disabled": [None, {"name": "ImageLocality"}, {"weight": 3}]}}},
            {"plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}},
            "profiles[0].plugins.score.disabled[2]: is left out: it names no plugin",
        ),
        (
            {"pluginConfig": [None, {"name": "Other", "args": None}]},
            {"pluginConfig": [{"name": "Other"}]},
            "profiles[0].pluginConfig[0]: is left out: it names no plugin",
        ),
    ],
)
def test_what_kube_scheduler_takes_for_nothing_is_left_out(
    tmp_path: Path, profile_: Any, spec: dict[str, Any], note: str
) -> None:
    """A null is an absent field, and in a list an entry with nothing in it."""
    head = {name: CONFIGURATION[name] for name in ("apiVersion", "kind")}
    result = run("convert", written(tmp_path / "c.yaml", {**head, "profiles": [profile_]}), "--name", "dense")
    assert result.exit_code == 0, result.stderr
    assert yaml.safe_load(result.stdout)["spec"] == {"schedulerName": "dense", **spec}
    assert note in result.stderr
    assert bool(note) == bool(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to", "kubeschedulerconfiguration"], "is a KubeSchedulerConfiguration: nothing to convert"),
        (["--to", "nodepool"], "Invalid value for '--to'"),
    ],
)
def test_a_kind_that_is_there_already_or_unknown_is_bad_use(
    scheduler: Path, arguments: list[str], expected: str
) -> None:
    result = run("convert", scheduler, *arguments)
    assert result.exit_code == 2
    assert expected in result.stderr


def test_another_name_takes_nothing_over(scheduler: str) -> None:
    result = run("convert", scheduler, "--name", "dense", "--take-over")
    assert result.exit_code == 2
    assert "--take-over: is about default-scheduler, and --name calls the profile dense" in result.stderr


def test_names_are_for_conversions_to_profiles(tmp_path: Path) -> None:
    result = run("convert", written(tmp_path / "p.yaml", profile_object()), "--name", "x")
    assert result.exit_code == 2
    assert "--name and --take-over are for conversions to SchedulerProfiles" in result.stderr


# ---- lint ------------------------------------------------------------------------------------------------------------


def test_all_findings_are_listed_with_file_document_and_field(tmp_path: Path) -> None:
    first = written(
        tmp_path / "a.yaml",
        profile_object("dense", percentageOfNodesToScore=101, rollout={"mode": "On"}),
        profile_object("sparse", pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategi": {}}}]),
    )
    second = written(tmp_path / "b.yaml", profile_object("other", schedulerName="sparse"))
    result = run("lint", first, second)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{first}: document 1: spec.percentageOfNodesToScore: 101: must be at most 100",
        f'{first}: document 1: spec.rollout.mode: "On": must be Active, Shadow or Paused',
        f"{first}: document 2: spec.pluginConfig[0].args.scoringStrategi: unknown field; did you mean scoringStrategy?",
        f'{first}: document 2: spec.schedulerName: "sparse": belongs to the SchedulerProfile other, which comes first',
    ]
    assert result.stderr == ""


def test_a_finding_hides_no_other_one(tmp_path: Path) -> None:
    enabled = [{"name": "NodeResourcesFit", "weight": -1}, {"name": "NodeNam"}]
    path = written(tmp_path / "a.yaml", profile_object("dense", plugins={"score": {"enabled": enabled}}))
    assert run("lint", path).stdout.splitlines() == [
        f"{path}: spec.plugins.score.enabled[0].weight: -1: must be at least 0",
        f'{path}: spec.plugins.score.enabled[1].name: "NodeNam": there is no such plugin; did you mean NodeName?',
    ]
    head = {name: CONFIGURATION[name] for name in ("apiVersion", "kind")}
    gated = {"plugins": {"permit": {"enabled": [{"name": "GangScheduling"}]}}}
    extenders = [{"urlPrefix": "http://here/", "filterVerb": "f"}]
    path = written(tmp_path / "c.yaml", {**head, "parallelism": 0, "profiles": [gated], "extenders": extenders})
    assert [line.split(": ")[1] for line in run("lint", path).stdout.splitlines()] == [
        "parallelism",
        "extenders",
        "profiles[0].plugins.permit.enabled[0].name",
    ]


def urls_said(path: Path, *options: str) -> list[str]:
    """What lint says about URLs."""
    lines = run("lint", path, *options).stdout.splitlines()
    return [line.removeprefix(f"{path}: ") for line in lines if ".urlPrefix: " in line]


def test_urls_are_checked_as_texts_by_the_same_flags_as_an_operator_s(tmp_path: Path) -> None:
    extenders = [{"urlPrefix": "https://127.0.0.1:8888/"}, {"urlPrefix": "http://extender.mon.svc:8080/"}]
    path = written(tmp_path / "a.yaml", profile_object("dense", extenders=extenders))
    port = "has a port that is not allowed: one of 443, 8443, 8888, 9090"
    assert urls_said(path) == [
        "spec.extenders[0].urlPrefix: must name a host, not an IP address",
        "spec.extenders[1].urlPrefix: must begin with https://: http is not allowed here",
        f"spec.extenders[1].urlPrefix: {port}",
    ]
    assert urls_said(path, "--allow-url-http") == [
        "spec.extenders[0].urlPrefix: must name a host, not an IP address",
        f"spec.extenders[1].urlPrefix: {port}",
    ]
    allowed = ("--allow-url-http", "--allow-url-port", "8080", "--allow-url-network", "127.0.0.0/8")
    assert urls_said(path, *allowed) == []


def test_names_in_urls_are_looked_up_only_if_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **how: Any) -> list[Any]:
        asked.append(host)
        if host != "localhost":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    urls = ("https://LOCALHOST/", "https://nobody.mon.svc/", "https://169.254.169.254/")
    path = written(tmp_path / "a.yaml", profile_object("dense", extenders=[{"urlPrefix": url} for url in urls]))
    text = "spec.extenders[2].urlPrefix: must name a host, not an IP address"
    assert urls_said(path, "--allow-url-host", "localhost") == [text]
    assert asked == []
    assert urls_said(path, "--allow-url-host", "localhost", "--resolve-urls") == [
        text,
        "spec.extenders[0].urlPrefix: the host name stands for an address that is not allowed: a loopback address",
        "spec.extenders[1].urlPrefix: the host name cannot be resolved",
    ]
    assert sorted(asked) == ["localhost", "nobody.mon.svc"]


def test_findings_as_values_have_place_field_and_message(tmp_path: Path) -> None:
    path = written(tmp_path / "a.yaml", profile_object("default-scheduler"))
    result = run("lint", path, "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "objects": 1,
        "findings": [
            {
                "place": str(path),
                "field": "spec.schedulerName",
                "message": '"default-scheduler": needs takeOver: true: kube-scheduler binds the pods of this name',
            }
        ],
    }
    assert yaml.safe_load(run("lint", path, "-o", "yaml").stdout) == json.loads(result.stdout)


def test_a_list_as_kubectl_prints_it_is_its_objects(tmp_path: Path) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [profile_object("dense"), profile_object("sparse")]}
    result = run("lint", "-", stdin=json.dumps(items))
    assert (result.exit_code, result.stdout) == (0, "2 objects: nothing is wrong\n")


def test_the_same_object_twice_is_a_finding(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, profile_object("dense")) for name in ("a.yaml", "b.yaml")]
    result = run("lint", *paths)
    assert result.exit_code == 1
    assert result.stdout == f'{paths[1]}: metadata.name: "dense": is in {paths[0]}, too\n'


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"profiles": [{"schedulerName": "a", "x": 1}]}, 'strict decoding error: unknown field "profiles[0].x"'),
        (
            {"extenders": [{"urlPrefix": "http://here/"}]},
            "extenders: are not asked yet, and decisions without them would be others: take them out",
        ),
        (
            {"profiles": [{"plugins": {"permit": {"enabled": [{"name": "GangScheduling"}]}}}]},
            (
                'profiles[0].plugins.permit.enabled[0].name: "GangScheduling": not decided yet: upstream has '
                "it behind a "
                "feature gate that is off"
            ),
        ),
        (
            {"parallelism": 0, "profiles": [{"percentageOfNodesToScore": -1}]},
            "parallelism: Invalid value: 0: should be",
        ),
    ],
)
def test_a_configuration_is_checked_as_kube_scheduler_checks_it(
    tmp_path: Path, configuration: dict[str, Any], expected: str
) -> None:
    value = {**{name: CONFIGURATION[name] for name in ("apiVersion", "kind")}, **configuration}
    result = run("lint", written(tmp_path / "c.yaml", value))
    assert result.exit_code == 1
    assert f"{tmp_path / 'c.yaml'}: {expected}" in result.stdout


def test_findings_about_a_configuration_have_a_field_if_kube_scheduler_names_one(tmp_path: Path) -> None:
    head = {name: CONFIGURATION[name] for name in ("apiVersion", "kind")}
    paths = [
        written(tmp_path / "validated.yaml", {**head, "parallelism": 0}),
        written(tmp_path / "decoded.yaml", {**head, "paralelism": 1}),
    ]
    findings = json.loads(run("lint", *paths, "-o", "json").stdout)["findings"]
    assert [(each["field"], each["message"].partition(":")[0]) for each in findings] == [
        ("parallelism", "Invalid value"),
        ("", "strict decoding error"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty: a SchedulerProfile"),
        ("[]", "a list: a SchedulerProfile (stowplan.io/v1alpha1) or a KubeSchedulerConfiguration"),
        ("kind: Pod", 'kind: "Pod": a SchedulerProfile'),
        ("kind: [1]", "kind: a list: a SchedulerProfile"),
        ("{}", "kind: must be set: a SchedulerProfile"),
        ("{kind: SchedulerProfile, apiVersion: v1}", 'apiVersion: "v1": must be stowplan.io/v1alpha1'),
        ("a: 1\na: 2", 'line 2, column 1): the key "a" occurs twice'),
        ("a: [", "line"),
        ("{kind: List, items: [{kind: Pod}]}", 'items[0]: kind: "Pod"'),
    ],
)
def test_other_files_are_bad_input_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    for arguments in (("lint", path), ("convert", path), ("diff", path, path)):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"stowplan: error: {path}")
        assert expected in line


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    result = run("lint", tmp_path / "none.yaml")
    assert (result.exit_code, result.stderr) == (2, f"stowplan: error: {tmp_path / 'none.yaml'}: no such file\n")


# ---- diff ------------------------------------------------------------------------------------------------------------


def test_a_default_that_is_written_out_is_no_difference(tmp_path: Path) -> None:
    explicit = profile_object(
        scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "cpu"}, {"name": "memory", "weight": 1}]},
        plugins={"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 3}]}},
        percentageOfNodesToScore=0,
    )
    result = run("diff", written(tmp_path / "a.yaml", profile_object()), written(tmp_path / "b.yaml", explicit))
    assert (result.exit_code, result.stdout) == (0, "dense: no difference\n")


def test_differences_are_those_of_what_the_scheduler_does(tmp_path: Path, scheduler: Path) -> None:
    """One small change of multiPoint moves a plugin at three extension points."""
    changed = profile_object(
        plugins={
            "multiPoint": {
                "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                "disabled": [{"name": "InterPodAffinity"}],
            }
        },
        rollout={"mode": "Paused"},
    )
    result = run(
        "diff", written(tmp_path / "a.yaml", profile_object()), written(tmp_path / "b.yaml", changed), "-o", "json"
    )
    assert result.exit_code == 1
    (pair,) = json.loads(result.stdout)["profiles"]
    assert (pair["schedulerName"], pair["inA"], pair["inB"]) == ("dense", True, True)
    found = {row["field"]: (row["a"], row["b"]) for row in pair["differences"]}
    assert found.pop("rollout.mode") == ("Active", "Paused")
    assert found.pop("weights.NodeResourcesFit") == (1, 5)
    assert found.pop("weights.InterPodAffinity") == (2, None)
    assert found.pop("args.InterPodAffinity.hardPodAffinityWeight") == (1, None)
    assert found.pop("args.InterPodAffinity.ignorePreferredTermsOfExistingPods") == (False, None)
    assert set(found) == {f"plugins.{point}" for point in ("preFilter", "filter", "preScore", "score")}
    for before, after in found.values():
        assert [name for name in before if name != "InterPodAffinity"] == after


def test_both_kinds_can_be_compared_and_then_rollout_does_not_count(tmp_path: Path, scheduler: Path) -> None:
    made = run("convert", scheduler, "--name", "default-scheduler", "--take-over").stdout
    paused = {**yaml.safe_load(made)}
    paused["spec"]["rollout"] = {"mode": "Paused"}
    result = run("diff", scheduler, written(tmp_path / "made.yaml", paused))
    assert (result.exit_code, result.stdout) == (0, "default-scheduler: no difference\n")


def test_keys_of_extenders_are_compared_but_not_shown(tmp_path: Path) -> None:
    def extended(name: str, key: bytes) -> Path:
        extender = {"urlPrefix": "https://here/", "tlsConfig": {"keyData": base64.b64encode(key).decode()}}
        return written(tmp_path / name, profile_object(extenders=[extender]))

    first, second = extended("a.yaml", b"secret-one"), extended("b.yaml", b"secret-two")
    assert run("diff", first, extended("same.yaml", b"secret-one")).exit_code == 0
    for output in ("table", "json"):
        result = run("diff", first, second, "-o", output)
        assert result.exit_code == 1
        assert "sha256:" in result.stdout
        assert "secret" not in result.stdout
        assert base64.b64encode(b"secret")[:8].decode() not in result.stdout
        assert b"secret".hex() not in result.stdout


def test_profiles_of_one_side_only_are_named(tmp_path: Path) -> None:
    both = written(tmp_path / "both.yaml", profile_object("dense"), profile_object("sparse"))
    one = written(tmp_path / "one.yaml", profile_object("dense"))
    result = run("diff", both, one)
    assert result.exit_code == 1
    assert result.stdout == f"dense: no difference\n\nsparse: only in {both}\n"


def test_a_table_shows_of_plugins_what_only_one_side_has(tmp_path: Path) -> None:
    changed = profile_object("sparse", plugins={"score": {"disabled": [{"name": "ImageLocality"}]}})
    a, b = written(tmp_path / "a.yaml", profile_object("dense")), written(tmp_path / "b.yaml", changed)
    result = subprocess.run(
        [sys.executable, "-c", "from stowplan_operator.cli import main; main()", "profile", "diff", a, b],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(COLUMNS="300"),
    )
    assert result.returncode == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["schedulerName", "dense", "sparse"] in rows
    assert ["plugins.score", "ImageLocality", "-"] in rows
    assert ["weights.ImageLocality", "1", "-"] in rows


def test_what_is_wrong_is_not_compared(tmp_path: Path) -> None:
    good = written(tmp_path / "good.yaml", profile_object())
    bad = written(tmp_path / "bad.yaml", profile_object(scoringStrategy={"type": "RequestedToCapacityRatio"}))
    result = run("diff", good, bad)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"stowplan: error: {bad}: spec.scoringStrategy.requestedToCapacityRatio: Required")


def test_standard_input_is_there_once() -> None:
    result = run("diff", "-", "-", stdin="{}")
    assert result.exit_code == 2
    assert "A and B cannot both be standard input" in result.stderr


# ---- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("convert",), ("lint",), ("diff",)])
def test_help_has_examples_and_exit_codes(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    if arguments:
        assert "Exit codes" in result.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom stowplan_operator.cli import cli\n"
        "try: cli(['profile', 'convert', '--help'], prog_name='stowplan')\nexcept SystemExit: pass\n"
        "sys.exit(str([m for m in ('numpy', 'pydantic', 'rich', 'yaml', 'kopf') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert done.stderr == "[]\n"
