"""Names that Kubernetes restricts, with an example in the error instead of the pattern alone."""

from __future__ import annotations

import re
from typing import Final

from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.resources.values import problem

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def check_label(value: str) -> str:
    """A DNS label, else a finding."""
    if not re.fullmatch(DNS_LABEL, value):
        raise problem(f"{shown(value)}: must be lower case letters, digits and '-', as in batch-1")
    return value


def check_subdomain(value: str) -> str:
    """A DNS subdomain, else a finding."""
    if not re.fullmatch(DNS_SUBDOMAIN, value):
        raise problem(f"{shown(value)}: must be lower case letters, digits, '-' and '.', as in batch-packer")
    return value
