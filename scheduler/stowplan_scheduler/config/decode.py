"""Strict decoding: a tree becomes checked, plain values, or an error with upstream's text.

Follows apimachinery `pkg/runtime/serializer/json` and `.../versioning`, sigs.k8s.io/json (the strict decoder) and
kube-scheduler `config/v1/types.go` (plugin args). Three kinds of findings, in order of precedence: an error inside a
type's own parser stops at once; of the type mismatches the first is reported; unknown and duplicate fields are all
reported, if nothing else is wrong.

The result mirrors the external types: absent and null fields are missing, durations are nanoseconds, plugin args of
known kinds are `TypedArgs`, others `RawArgs`. Defaults come later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from .decoder import DecodeError, Fields, StructDecoder, value_kind
from .document import members_of, number_literal, to_json
from .errors import ConfigurationError
from .gotext import quote
from .json_text import parse_json
from .schema import API_VERSION, CONFIGURATION_KIND, GROUP, KINDS, VERSION

MAX_TEXT = 4 << 20
"""Characters of a configuration text. Real ones have thousands."""

_SCHEME = "pkg/runtime/scheme.go:111"
_META_STRUCT = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_STRICT = "strict decoding error: "


@dataclass(frozen=True, slots=True)
class RawArgs:
    """Args of a plugin without a registered kind: compact JSON, fields in their order."""

    text: str

    @property
    def value(self) -> object:
        """The args as plain Python values; of repeated fields the last counts."""
        return json.loads(self.text)


@dataclass(slots=True)
class TypedArgs:
    """Args of a registered kind, checked, not yet defaulted."""

    kind: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class _GroupVersionKind:
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def with_defaults(self, default: _GroupVersionKind) -> _GroupVersionKind:
        group, version = self.group, self.version
        if not version and not group:
            group, version = default.group, default.version
        if not version and group == default.group:
            version = default.version
        return _GroupVersionKind(group, version, self.kind or default.kind)


@dataclass(slots=True)
class _Decoded:
    gvk: _GroupVersionKind
    fields: Fields
    strict: list[str]


def decode_configuration(data: object) -> Fields:
    """The checked fields of a KubeSchedulerConfiguration tree. Raises ConfigurationError (decode, one error)."""
    try:
        return _configuration(data, to_json(data), [])
    except ValueError as error:
        raise ConfigurationError([str(error)], "decode") from None


def decode_text(text: str, source: str = "") -> Fields:
    """The same from JSON (if the first character is a brace) or YAML text."""
    try:
        if len(text) > MAX_TEXT:
            raise DecodeError(f"the text has more than {MAX_TEXT} characters")
        tree, findings = _read(text)
        return _configuration(tree, text, findings)
    except ValueError as error:
        raise ConfigurationError([str(error)], "decode", source) from None


def _read(text: str) -> tuple[object, list[str]]:
    if not text.lstrip().startswith("{"):
        from .yaml_text import parse_yaml  # PyYAML only where a text is YAML: most starts need none

        tree, repeated = parse_yaml(text)
        return tree, ["yaml: unmarshal errors:\n  " + "\n  ".join(repeated)] if repeated else []
    try:
        return parse_json(text), []
    except ValueError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from None


def _configuration(tree: object, text: str, findings: list[str]) -> Fields:
    decoded = _decode_object(tree, text, None)
    strict = findings + decoded.strict
    if decoded.gvk.kind == CONFIGURATION_KIND:
        strict += _decode_args(decoded.fields)
    if strict:
        raise DecodeError(_STRICT + ", ".join(strict))
    if decoded.gvk.kind != CONFIGURATION_KIND:
        gvk = f"{decoded.gvk.group_version}, Kind={decoded.gvk.kind}"
        raise DecodeError(f"couldn't decode as {CONFIGURATION_KIND}, got {gvk}: ")
    decoded.fields["apiVersion"], decoded.fields["kind"] = API_VERSION, CONFIGURATION_KIND
    return decoded.fields


# ---- one object with apiVersion and kind -----------------------------------------------------------------------------


def _decode_object(tree: object, text: str, default: _GroupVersionKind | None) -> _Decoded:
    gvk = _interpret(tree)
    if default is not None:
        gvk = gvk.with_defaults(default)
    if not gvk.kind:
        raise DecodeError(f"Object 'Kind' is missing in '{text}'")
    if not gvk.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{text}'")
    if (gvk.group, gvk.version) != (GROUP, VERSION) or gvk.kind not in KINDS:
        raise DecodeError(
            f"no kind {quote(gvk.kind)} is registered for version {quote(gvk.group_version)} in scheme {quote(_SCHEME)}"
        )
    decoder = StructDecoder()
    fields = decoder.struct(KINDS[gvk.kind], tree)
    if decoder.mismatch:
        raise DecodeError(decoder.mismatch)
    return _Decoded(gvk, fields, decoder.strict)


def _interpret(tree: object) -> _GroupVersionKind:
    """apiVersion and kind. Go's own decoder reads these, which is case-insensitive: the last match counts."""
    found = {"apiversion": "", "kind": ""}
    fields = members_of(tree)
    if fields is None and tree is not None:
        mismatch = f"json: cannot unmarshal {value_kind(tree)} into Go value of type {_META_STRUCT}"
        raise DecodeError(f"couldn't get version/kind; json parse error: {mismatch}")
    mismatch = ""
    for name, value in fields or []:
        folded = name.casefold()
        if folded not in found or value is None:
            continue
        if isinstance(value, str) and number_literal(value) is None:
            found[folded] = value
        elif not mismatch:
            field = "apiVersion" if folded == "apiversion" else "kind"
            mismatch = f"json: cannot unmarshal {value_kind(value)} into Go struct field .{field} of type string"
    if mismatch:
        raise DecodeError(f"couldn't get version/kind; json parse error: {mismatch}")
    group, version = _parse_group_version(found["apiversion"])
    return _GroupVersionKind(group, version, found["kind"])


def _parse_group_version(text: str) -> tuple[str, str]:
    if text in {"", "/"}:
        return "", ""
    if text.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {text}")
    group, slash, version = text.partition("/")
    return (group, version) if slash else ("", group)


# ---- plugin args -----------------------------------------------------------------------------------------------------


def _decode_args(configuration: Fields) -> list[str]:
    """Decodes the args of every known plugin in place; returns the strict findings."""
    strict: list[str] = []
    for i, profile in enumerate(_structs(configuration, "profiles")):
        for j, config in enumerate(_structs(profile, "pluginConfig")):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            try:
                findings = _decode_plugin_config(config)
            except DecodeError as error:
                raise DecodeError(where + str(error)) from None
            if findings:
                strict.append(where + findings)
    return strict


def _structs(fields: Fields, name: str) -> list[Fields]:
    value = fields.get(name, [])
    return value if isinstance(value, list) else []


def _decode_plugin_config(config: Fields) -> str:
    name, tree = str(config.get("name", "")), config.get("args")
    kind = f"{name}Args"
    if kind not in KINDS:
        if tree is not None:
            config["args"] = RawArgs(to_json(tree))
        return ""
    decoding = f"decoding args for plugin {name}: "
    try:
        decoded = _decode_object(tree, "" if tree is None else to_json(tree), _GroupVersionKind(GROUP, VERSION, kind))
    except DecodeError as error:
        raise DecodeError(decoding + str(error)) from None
    if decoded.gvk.kind != kind:
        wanted, got = f"{kind}.{GROUP}", f"{decoded.gvk.kind}.{GROUP}"
        raise DecodeError(f"args for plugin {name} were not of type {wanted}, got {got}")
    config["args"] = TypedArgs(kind, decoded.fields)
    return _STRICT + decoding + _STRICT + ", ".join(decoded.strict) if decoded.strict else ""
