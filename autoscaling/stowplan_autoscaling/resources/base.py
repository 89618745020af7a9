"""What all parts of the kind have in common: strict, frozen, camelCase in YAML, and described field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from stowplan_autoscaling.inputs.errors import shown

from .values import problem

NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class Part(BaseModel):
    """A mapping of the kind. Fields that it does not have are an error; values are not converted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        validate_default=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=False,
    )


class GrownPart(Part):
    """A mapping that got fields later on.

    Those in `LATER` are not written while they are as they are by default: the digest of a simulation that says nothing
    about them is what it was before they came.
    """

    LATER: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        for name in self.LATER:
            if getattr(self, name) == type(self).model_fields[name].default:
                written.pop(name, None)
                written.pop(to_camel(name), None)
        return written


class Choice(Part):
    """A mapping of which exactly one of the fields in `CHOICES` must be set."""

    CHOICES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def choices(cls) -> list[str]:
        """The names in YAML."""
        return [to_camel(name) for name in cls.CHOICES]

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        handler.resolve_ref_schema(schema)["oneOf"] = [{"required": [name]} for name in cls.choices()]
        return schema

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        given = [to_camel(name) for name in self.CHOICES if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"; {' and '.join(given)} are set" if given else ""
            raise problem(f"exactly one of {', '.join(self.choices())} must be set{found}")
        return self

    @property
    def chosen(self) -> Part:
        """The part that is set."""
        found: Part = next(part for name in self.CHOICES if (part := getattr(self, name)) is not None)
        return found


def option(default: Any, description: str, *, source: str = "", **limits: Any) -> Any:
    """A field that may be left out. `source` says where its default comes from, and becomes part of the description."""
    text = f"{description} Default from {source}." if source else description
    return Field(default=default, description=text, **limits)


def parts(description: str, **limits: Any) -> Any:
    """A list that is empty if it is left out."""
    return Field(default=(), description=description, **limits)


def needed(description: str, **limits: Any) -> Any:
    """A field that must be set."""
    return Field(description=description, **limits)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, tuple):
        return value
    raise problem(f"must be a list, got {shown(value)}")


FromList: Final = BeforeValidator(_as_tuple)
"""Lists of YAML become tuples."""

Names = Annotated[tuple[str, ...], FromList]
Labels = dict[str, str]

KubernetesObject = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "required": ["apiVersion", "kind", "metadata"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
            },
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]
"""An object of any kind, as it would be given to kubectl."""

FreeForm = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A mapping that is described elsewhere."""


class ObjectRef(Part):
    """One object by kind, namespace and name."""

    kind: Literal["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet", "Job", "CronJob"] = (
        option("Deployment", "Kind of the workload.")
    )
    namespace: str = option("default", "Namespace of the workload.", min_length=1, max_length=63)
    name: str = needed("Name of the workload.", min_length=1, max_length=253)

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


def duplicate(names: Sequence[str]) -> int | None:
    """The index of the first name that stands earlier in the list already."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            return index
        seen.add(name)
    return None
