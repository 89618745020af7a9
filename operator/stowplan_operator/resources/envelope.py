"""What all custom resources have around their spec: group and version, metadata as it is read, conditions."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from stowplan_autoscaling.resources.base import FromList, Part, needed, option, parts

GROUP: Final = "stowplan.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "stowplan"

MAX_NAME: Final = 253
"""Longest name of an object whose name is a DNS subdomain."""


class ObjectMeta(BaseModel):
    """metadata, as far as it is looked at; the rest of it is Kubernetes' business."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)

    name: str = Field(min_length=1, max_length=MAX_NAME)
    uid: str = ""
    generation: int = 0
    """Counts changes of spec. 0 in a file."""
    resource_version: str = ""
    creation_timestamp: str = ""
    """RFC 3339 in UTC with whole seconds, so that texts compare as times do. Empty in a file."""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def age_key(self) -> tuple[str, str]:
        """Orders objects by age: the older first, of two of the same second the first by name."""
        return self.creation_timestamp, self.name


class Condition(Part):
    """One thing that is so, is not so, or is not known (metav1.Condition)."""

    type: str = needed("What it is about.", min_length=1, max_length=316)
    status: Literal["True", "False", "Unknown"] = needed("Whether it is so.")
    reason: str = needed("Why, as a word for programs.", min_length=1, max_length=1024)
    message: str = option("", "Why, for readers.", max_length=32768)
    observed_generation: int = option(0, "The metadata.generation that it is about.", ge=0)
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] = needed(
        "When `status` changed last."
    )


Conditions = Annotated[tuple[Condition, ...], FromList]


def observed_generation() -> Any:
    """The field that every status begins with."""
    return option(0, "The metadata.generation that this status is about.", ge=0)


class ModelStatus(Part):
    """status of a kind that describes something and runs nothing: whether it could be simulated."""

    observed_generation: int = observed_generation()
    conditions: Conditions = parts("Ready and Accepted: it can be simulated.", max_length=16)
