"""LimitRanger: default requests and limits of containers, and the bounds of containers and pods.

Follows plugin/pkg/admission/limitranger/admission.go of Kubernetes v1.37.2. Where upstream complains in the order of a
map, the order here is that of the resource names. Volume claims are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.quota import CONTAINER, POD, LimitRange, LimitRangeItem
from stowplan_scheduler.objects import Container, PodSpec, ResourceMap
from stowplan_scheduler.quantity import MAX_INT64, milli_value, value

from .amounts import ZERO, Amount, Amounts, parse_amounts
from .pod_totals import limit_range_totals

ANNOTATION: Final = "kubernetes.io/limit-ranger"

_MAX_MILLI_VALUE: Final = MAX_INT64 // 1000


def apply_defaults(spec: PodSpec, limit_ranges: Iterable[LimitRange]) -> tuple[PodSpec, str]:
    """The spec with the defaults of the limit ranges, in turn, and the text of the annotation ("": none)."""
    annotation = ""
    for limit_range in limit_ranges:
        notes: list[str] = []
        limits, requests = _defaults(limit_range)
        spec = replace(
            spec,
            containers=tuple(_merged(each, limits, requests, "container", notes) for each in spec.containers),
            init_containers=tuple(
                _merged(each, limits, requests, "init container", notes) for each in spec.init_containers
            ),
        )
        if notes:
            annotation = f"LimitRanger plugin set: {'; '.join(notes)}"
    return spec, annotation


def _defaults(limit_range: LimitRange) -> tuple[ResourceMap, ResourceMap]:
    limits: ResourceMap = {}
    requests: ResourceMap = {}
    for item in limit_range.spec.limits:
        if item.type == CONTAINER:
            limits.update(item.default)
            requests.update(item.default_request)
    return limits, requests


def _merged(container: Container, limits: ResourceMap, requests: ResourceMap, what: str, notes: list[str]) -> Container:
    own = container.resources
    new_limits = {name: amount for name, amount in limits.items() if name not in (own.limits or {})}
    new_requests = {name: amount for name, amount in requests.items() if name not in (own.requests or {})}
    for added, part in ((new_requests, "request"), (new_limits, "limit")):
        if added:
            notes.append(f"{', '.join(sorted(added))} {part} for {what} {container.name}")
    resources = replace(
        own, limits={**(own.limits or {}), **new_limits}, requests={**(own.requests or {}), **new_requests}
    )
    return replace(container, resources=resources)


def complaint(spec: PodSpec, limit_range: LimitRange) -> str:
    """What the limit range has against the pod; "" if nothing. Raises QuantityError."""
    found = [text for item in limit_range.spec.limits for text in _item_complaints(spec, item)]
    unique = list(dict.fromkeys(found))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]" if unique else ""


def _item_complaints(spec: PodSpec, item: LimitRangeItem) -> Iterator[str]:
    if item.type == CONTAINER:
        for container in (*spec.containers, *spec.init_containers):
            resources = container.resources
            yield from _bounds(item, parse_amounts(resources.requests), parse_amounts(resources.limits))
    elif item.type == POD:
        yield from _bounds(item, *limit_range_totals(spec))


def _bounds(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted(parse_amounts(item.min).items()):
        yield from _minimum(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(parse_amounts(item.max).items()):
        yield from _maximum(item.type, name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(parse_amounts(item.max_limit_request_ratio).items()):
        yield from _ratio(item.type, name, bound, requests.get(name), limits.get(name))


def _minimum(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    asked, allowed, enforced = _comparable(request, limit, bound)
    prefix = f"minimum {name} usage per {kind} is {bound.text}"
    if request is None:
        yield f"{prefix}.  No request is specified"
    elif asked < enforced:
        yield f"{prefix}, but request is {request.text}"
    elif limit is not None and allowed < enforced:
        yield f"{prefix}, but limit is {limit.text}"


def _maximum(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    asked, allowed, enforced = _comparable(request, limit, bound)
    prefix = f"maximum {name} usage per {kind} is {bound.text}"
    if limit is None:
        yield f"{prefix}.  No limit is specified"
    elif allowed > enforced:
        yield f"{prefix}, but limit is {limit.text}"
    elif request is not None and asked > enforced:
        yield f"{prefix}, but request is {request.text}"


def _ratio(kind: str, name: str, bound: Amount, request: Amount | None, limit: Amount | None) -> Iterator[str]:
    asked, allowed, _ = _comparable(request, limit, bound)
    prefix = f"{name} max limit to request ratio per {kind} is {bound.text}"
    if request is None or asked == 0:
        yield f"{prefix}, but no request is specified or request is 0"
        return
    if limit is None or allowed == 0:
        yield f"{prefix}, but no limit is specified or limit is 0"
        return
    observed = allowed / asked
    is_precise = value(bound.nanos) <= _MAX_MILLI_VALUE
    compared, most = (observed * 1000, milli_value(bound.nanos)) if is_precise else (observed, value(bound.nanos))
    if compared > float(most):
        yield f"{prefix}, but provided ratio is {observed:f}"


def _comparable(request: Amount | None, limit: Amount | None, bound: Amount) -> tuple[int, int, int]:
    """The three in thousandths, or in whole units where one of them is too large for that."""
    nanos = [amount.nanos for amount in (request or ZERO, limit or ZERO, bound)]
    whole = [value(each) for each in nanos]
    if all(each <= _MAX_MILLI_VALUE for each in whole):
        whole = [milli_value(each) for each in nanos]
    return whole[0], whole[1], whole[2]
