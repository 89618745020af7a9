"""ImageLocality: prefer nodes that hold the pod's images (plugins/imagelocality/image_locality.go of v1.37.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import partial
from typing import Final, cast

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.interface import MAX_NODE_SCORE, Inputs, PreScoreResult, ScorePlugin, Scores
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod

from .vectors import CodeValues

MIN_THRESHOLD: Final = 23 * 1024 * 1024
"""Bytes of images on a node that score nothing yet."""

MAX_CONTAINER_THRESHOLD: Final = 1000 * 1024 * 1024
"""Bytes of images per container that score everything."""

ImageSet = tuple[tuple[str, int, int], ...]
"""(name, size in bytes, number of nodes that hold it) of each image on a node."""


class ImageLocality(ScorePlugin):
    """Raw scores are final: 0..100 by the bytes that need no download, thinned by how few nodes hold them."""

    name = "ImageLocality"
    score_inputs = Inputs.NODE
    score_reads_requests = False

    def score_key(self, pod: PodInfo) -> Hashable:
        return tuple(sorted(_images(pod.pod)))

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        return PreScoreResult(state=_Wanted(_images(pod.pod)))

    def score(self, state: object, view: NodeView) -> Scores:
        return cast(_Wanted, state).scores(view)


class _Wanted:
    """The images of a pod, each as often as it is used, and what is known of nodes' image sets."""

    __slots__ = ("_by_code", "_count", "_total_nodes", "_uses")

    def __init__(self, images: list[str]) -> None:
        self._uses = Counter(images)
        self._count = len(images)
        self._total_nodes = -1
        self._by_code: CodeValues[ImageSet] = CodeValues(partial(self._score, 1))

    def scores(self, view: NodeView) -> Scores:
        table = view.table
        if table.size != self._total_nodes:
            # The number of nodes is no property of the node; it moves with the layout, and so does every answer.
            self._total_nodes = table.size
            self._by_code = CodeValues(partial(self._score, table.size))
        return self._by_code.at(table.image_sets, table.images[view.rows])

    def _score(self, total_nodes: int, held: ImageSet) -> int:
        uses = self._uses
        present = (
            uses[name] * _scaled_size(size, num_nodes, total_nodes) for name, size, num_nodes in held if name in uses
        )
        return _priority(sum(present), self._count)


def _scaled_size(size: int, num_nodes: int, total_nodes: int) -> int:
    """Bytes, scaled by the share of nodes that hold the image, against drawing all pods to one node."""
    return int(float(size) * (float(num_nodes) / float(total_nodes)))


def _priority(scaled_bytes: int, images: int) -> int:
    largest = MAX_CONTAINER_THRESHOLD * images
    clamped = max(MIN_THRESHOLD, min(scaled_bytes, largest))
    return MAX_NODE_SCORE * (clamped - MIN_THRESHOLD) // (largest - MIN_THRESHOLD)


def _images(pod: Pod) -> list[str]:
    """The normalized image names of init containers, containers and image volumes, repetitions included."""
    spec = pod.spec
    references = [c.image for c in spec.init_containers] + [c.image for c in spec.containers]
    references += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [normalized_image_name(reference) for reference in references]


def normalized_image_name(name: str) -> str:
    """With the tag `:latest` where there is none; a port of the registry is no tag."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
