"""Strict decoding of mappings, JSON and YAML; texts from the decoders that kube-scheduler v1.37.2 uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.config import ConfigurationError, load_configuration, load_configuration_text
from stowplan_scheduler.config.schema import CONFIGURATION, KINDS, Sequence, Struct
from stowplan_scheduler.config.types import ConfigModel, KubeSchedulerConfiguration

Build = Callable[..., Any]

YAML = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
JSON = '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"'
GO_FIELD = "json: cannot unmarshal {} into Go struct field {} of type {}"


def decode_error(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration_text(text)
    assert caught.value.stage == "decode"
    (error,) = caught.value.errors
    return error


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"parallelism": "x"}, GO_FIELD.format("string", "KubeSchedulerConfiguration.parallelism", "int32")),
        ({"parallelism": 1.5}, GO_FIELD.format("number 1.5", "KubeSchedulerConfiguration.parallelism", "int32")),
        (
            {"parallelism": 3000000000},
            GO_FIELD.format("number 3000000000", "KubeSchedulerConfiguration.parallelism", "int32"),
        ),
        (
            {"enableProfiling": 1},
            GO_FIELD.format("number", "KubeSchedulerConfiguration.DebuggingConfiguration.enableProfiling", "bool"),
        ),
        (
            {"profiles": {}},
            GO_FIELD.format("object", "KubeSchedulerConfiguration.profiles", "[]v1.KubeSchedulerProfile"),
        ),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": 5}]}}}]},
            GO_FIELD.format("number", "Plugin.profiles.plugins.score.enabled.name", "string"),
        ),
        (
            {"leaderElection": {"leaseDuration": 10}},
            GO_FIELD.format("number", "LeaderElectionConfiguration.leaderElection.leaseDuration", "string"),
        ),
        ({"leaderElection": {"leaseDuration": "10"}}, 'time: missing unit in duration "10"'),
        ({"leaderElection": {"leaseDuration": "1x"}}, 'time: unknown unit "x" in duration "1x"'),
        ({"leaderElection": {"leaseDuration": None}}, 'time: invalid duration ""'),
        (
            {"clientConnection": {"qps": 1e39}},
            GO_FIELD.format("number 1e+39", "ClientConnectionConfiguration.clientConnection.qps", "float32"),
        ),
        ({"extenders": [{"tlsConfig": {"caData": "a-b="}}]}, "illegal base64 data at input byte 1"),
        (
            {"foo": 1, "profiles": [{"bar": 1, "plugins": {"x": {}}}]},
            (
                'strict decoding error: unknown field "foo", unknown field "profiles[0].bar", '
                'unknown field "profiles[0].plugins.x"'
            ),
        ),
        ({"foo": 1, "parallelism": []}, GO_FIELD.format("array", "KubeSchedulerConfiguration.parallelism", "int32")),
    ],
)
def test_a_field_of_the_wrong_type_or_name_is_refused(
    config: Build, errors_of: Build, fields: dict[str, Any], expected: str
) -> None:
    """A type mismatch hides unknown fields, and an error inside a parser hides both."""
    assert errors_of(config(**fields)) == ("decode", [expected])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "Object 'Kind' is missing in '{}'"),
        (
            {"kind": "KubeSchedulerConfiguration"},
            "Object 'apiVersion' is missing in '{\"kind\":\"KubeSchedulerConfiguration\"}'",
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"},
            (
                'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3" '
                'in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        ({"apiVersion": "a/b/c", "kind": "X"}, "unexpected GroupVersion string: a/b/c"),
        (
            {"apiVersion": 1, "kind": "X"},
            (
                "couldn't get version/kind; json parse error: "
                "json: cannot unmarshal number into Go struct field .apiVersion of type string"
            ),
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "KIND": "KubeSchedulerConfiguration"},
            'strict decoding error: unknown field "KIND"',
        ),
    ],
)
def test_version_and_kind_come_first(errors_of: Build, data: dict[str, Any], expected: str) -> None:
    """They are looked up without regard to case, but decoded with it."""
    assert errors_of(data) == ("decode", [expected])


def test_null_stands_for_an_absent_field(config: Build) -> None:
    """As everywhere in Kubernetes."""
    given = config(
        parallelism=None, profiles=[{"schedulerName": None, "plugins": None, "pluginConfig": None}], extenders=None
    )
    assert load_configuration(given) == load_configuration(None)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            {"foo": 1, "bar": 2},
            (
                "strict decoding error: decoding .profiles[0].pluginConfig[0]: "
                "strict decoding error: decoding args for plugin "
                'NodeAffinity: strict decoding error: unknown field "foo", unknown field "bar"'
            ),
        ),
        (
            {"kind": "InterPodAffinityArgs"},
            (
                "decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type "
                "NodeAffinityArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"
            ),
        ),
        (
            {"kind": "Foo"},
            (
                "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
                'no kind "Foo" is registered for version '
                '"kubescheduler.config.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        (
            5,
            (
                "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
                "couldn't get version/kind; json parse "
                "error: json: cannot unmarshal number into Go value of type struct { APIVersion string "
                r'"json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
            ),
        ),
        (
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}},
            (
                "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
                "json: cannot unmarshal string into Go "
                "struct field NodeSelector.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
                ".nodeSelectorTerms "
                "of type []v1.NodeSelectorTerm"
            ),
        ),
    ],
)
def test_args_are_decoded_as_objects_of_their_own(
    args_config: Build, errors_of: Build, args: object, expected: str
) -> None:
    """Paths inside args start at the args."""
    assert errors_of(args_config("NodeAffinity", args)) == ("decode", [expected])


def test_repeated_fields_are_found_in_json_and_in_yaml() -> None:
    """A mapping cannot show them any more, so texts are read with their repetitions."""
    text = JSON + ',"parallelism":1,"profiles":[{"schedulerName":"a","schedulerName":"b"}],"parallelism":2}'
    expected = 'strict decoding error: duplicate field "profiles[0].schedulerName", duplicate field "parallelism"'
    assert decode_error(text) == expected
    text = YAML + "parallelism: 1\nextenders: []\nparallelism: 2\n"
    assert (
        decode_error(text)
        == 'strict decoding error: yaml: unmarshal errors:\n  line 5: key "parallelism" already set in map'
    )


def test_unknown_fields_of_yaml_are_sorted() -> None:
    """YAML goes through JSON with sorted keys."""
    assert decode_error(YAML + "zz: 1\naa: 2\n") == 'strict decoding error: unknown field "aa", unknown field "zz"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "unexpected end of JSON input"),
        (JSON + "}}", "invalid character '}' after top-level value"),
        (JSON + ",}", "invalid character '}' looking for beginning of object key string"),
        (JSON + ' "a"}', "invalid character '\"' after object key:value pair"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a": [1 2]}', "invalid character '2' after array element"),
        ('{"a": x}', "invalid character 'x' looking for beginning of value"),
        ('{"a": 01}', "invalid character '1' after object key:value pair"),
        ('{"a": -}', "invalid character '}' in numeric literal"),
        ('{"a": 1.}', "invalid character '}' after decimal point in numeric literal"),
        ('{"a": 1e}', "invalid character '}' in exponent of numeric literal"),
        ('{"a": tru}', "invalid character '}' in literal true (expecting 'e')"),
        ('{"a": "\n"}', r"invalid character '\n' in string literal"),
        (r'{"a": "\q"}', "invalid character 'q' in string escape code"),
        (r'{"a": "\u12g4"}', r"invalid character 'g' in \u hexadecimal character escape"),
    ],
)
def test_broken_json_is_refused_in_gos_words(text: str, expected: str) -> None:
    """Only texts that start with a brace are JSON."""
    assert decode_error(text) == f"couldn't get version/kind; json parse error: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        (YAML + "a: b: c\n", "yaml: line 3: mapping values are not allowed in this context"),
        (YAML + "\tparallelism: 5\n", "yaml: line 3: found a tab character that violates indentation"),
        (YAML + "profiles: [\n", "yaml: line 3: did not find expected node content"),
        (YAML + "parallelism: *x\n", "yaml: unknown anchor 'x' referenced"),
        (YAML + "profiles: &x [*x]\n", "yaml: anchor 'x' value contains itself"),
        (YAML + "<<: 5\n", "yaml: map merge requires map or sequence of maps as the value"),
        (YAML + "parallelism: .nan\n", "json: unsupported value: NaN"),
    ],
)
def test_broken_yaml_is_refused_in_the_librarys_words(text: str, expected: str) -> None:
    """The tokenizer is the same library, so the problems have the same names."""
    assert decode_error(text) == expected


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("1.0", 1),
        ("1e1", 10),
        ("010", 8),
        ("0x10", 16),
        ("0b11", 3),
        ("0o17", 15),
        ("08", 8),
        ("+5", 5),
        ("1_0", 10),
        ('!!int "5"', 5),
    ],
)
def test_yaml_numbers_are_read_as_upstreams_library_reads_them(scalar: str, value: int) -> None:
    """A whole float becomes an integer on its way through JSON."""
    assert load_configuration_text(f"{YAML}parallelism: {scalar}\n").parallelism == value


@pytest.mark.parametrize(("scalar", "value"), [("y", True), ("On", True), ("n", False), ("OFF", False), ("no", False)])
def test_yaml_booleans_have_many_names(scalar: str, value: bool) -> None:
    """The library follows YAML 1.1, single letters included."""
    assert load_configuration_text(f"{YAML}enableProfiling: {scalar}\n").enable_profiling is value


def test_yaml_anchors_and_merges_work() -> None:
    """Later documents of a stream are ignored."""
    text = YAML + "profiles:\n- &p {schedulerName: a, percentageOfNodesToScore: 7}\n- <<: *p\n---\nfoo: bar\n"
    with pytest.raises(ConfigurationError) as caught:
        load_configuration_text(text, "profiles.yaml")
    assert str(caught.value) == "profiles.yaml: profiles[1].schedulerName: Duplicate value: {}"


def test_an_alias_bomb_is_refused_quickly() -> None:
    """Nine levels of ten aliases would be a billion nodes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    start = time.perf_counter()
    assert decode_error(YAML + "\n".join(lines)) == "yaml: document contains excessive aliasing"
    assert time.perf_counter() - start < 5


def test_deep_and_endless_data_are_refused() -> None:
    """Neither a text nor a mapping may exhaust the stack."""
    assert "exceeded max" in decode_error("[" * 5000)
    assert "exceeded max depth" in decode_error('{"a":' + "[" * 5000)
    endless: dict[str, Any] = {"kind": "KubeSchedulerConfiguration"}
    endless["self"] = endless
    with pytest.raises(ConfigurationError, match="exceeded max depth"):
        load_configuration(endless)
    assert "characters" in decode_error("x" * (5 << 20))


@given(st.text(alphabet="{}[]:,\"\\ \nabkind&*!-#'0.e%|>\t", max_size=60))
def test_no_text_ends_in_anything_but_a_configuration_error(text: str) -> None:
    """Users and fuzzers feed anything; a traceback is never the answer."""
    with pytest.raises(ConfigurationError):
        load_configuration_text(text)


def test_models_and_schema_name_the_same_fields() -> None:
    """The schema knows the external types, the models the internal ones; a field that is in one only would be lost."""

    def aliases(model: type[ConfigModel]) -> set[str]:
        return {info.alias or name for name, info in model.model_fields.items()}

    assert aliases(KubeSchedulerConfiguration) == set(CONFIGURATION.fields)
    profile = CONFIGURATION.fields["profiles"]
    assert isinstance(profile, Sequence)
    assert isinstance(profile.element, Struct)
    from stowplan_scheduler.config.plugin_args import ARGS_TYPES
    from stowplan_scheduler.config.types import Extender, KubeSchedulerProfile, Plugins

    assert aliases(KubeSchedulerProfile) == set(profile.element.fields)
    plugins = profile.element.fields["plugins"]
    assert isinstance(plugins, Struct)
    assert aliases(Plugins) == set(plugins.fields)
    extender = CONFIGURATION.fields["extenders"]
    assert isinstance(extender, Sequence)
    assert isinstance(extender.element, Struct)
    assert aliases(Extender) == set(extender.element.fields)
    for kind, model in ARGS_TYPES.items():
        assert aliases(model) | {"apiVersion", "kind"} == set(KINDS[kind].fields)
