"""Which images nodes hold: sizes, and on how many nodes each name is found.

`ImageStates` is the cache-wide register. A node holds an `ImageSet`, shared by all nodes that report the same images.
What a snapshot sees of a set is frozen when the node is copied: another node that gains or loses an image later does
not change it. Nothing is rebuilt as long as no count moved, so copying a node does not cost a step per image.

Follows addNodeImageStates and removeNodeImageStates of pkg/scheduler/backend/cache/cache.go, and ImageStateSummary of
staging/src/k8s.io/kube-scheduler/framework/types.go, Kubernetes v1.37.2. Upstream keeps a set of node names per image;
the number of nodes is all that is ever read of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakValueDictionary

from stowplan_scheduler.objects import ContainerImage


@dataclass(frozen=True, slots=True)
class ImageState:
    """An image as a snapshot sees it: size in bytes, and the number of nodes that hold it."""

    size: int
    num_nodes: int


FrozenStates = dict[str, ImageState]
"""Image name -> state. Shared between nodes and snapshots: never change one."""

NO_IMAGES: FrozenStates = {}


class ImageSet:
    """The images of a node, by every name. `sizes` is what the node itself reports, in bytes."""

    __slots__ = ("__weakref__", "images", "sizes", "states", "version")

    def __init__(self, images: tuple[ContainerImage, ...]) -> None:
        """Of two images under one name, the first counts."""
        self.images = images
        self.sizes: dict[str, int] = {}
        for image in images:
            for name in image.names:
                self.sizes.setdefault(name, image.size_bytes)
        self.states = NO_IMAGES
        self.version = -1


class _Record:
    """One image name in the register; `state` is made when somebody looks."""

    __slots__ = ("num_nodes", "size", "state")

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_nodes = 0
        self.state: ImageState | None = None

    def frozen(self) -> ImageState:
        """The record as it is now, one object until it changes."""
        state = self.state
        if state is None:
            state = self.state = ImageState(self.size, self.num_nodes)
        return state


class ImageStates:
    """The register of all images on all nodes."""

    __slots__ = ("_records", "_sets", "_version")

    def __init__(self) -> None:
        """No images yet."""
        self._records: dict[str, _Record] = {}
        self._sets: WeakValueDictionary[tuple[ContainerImage, ...], ImageSet] = WeakValueDictionary()
        self._version = 0

    def __len__(self) -> int:
        return len(self._records)

    def replace(self, held: ImageSet | None, images: tuple[ContainerImage, ...]) -> ImageSet | None:
        """A node that held `held` now reports `images`; returns what it holds from now on."""
        if held is not None and (held.images is images or held.images == images):
            self._introduce_again(held)
            return held
        if held is not None:
            self.release(held)
        return self._hold(images) if images else None

    def release(self, held: ImageSet) -> None:
        """A node that held `held` is gone. A name leaves the register with its last node."""
        for name in held.sizes:
            record = self._records[name]
            record.num_nodes -= 1
            record.state = None
            if not record.num_nodes:
                del self._records[name]
        self._version += 1

    def frozen(self, held: ImageSet | None) -> FrozenStates:
        """The present states of a node's images; the same object as last time unless one of them changed."""
        if held is None:
            return NO_IMAGES
        if held.version != self._version:
            records = self._records
            states = {name: records[name].frozen() for name in held.sizes}
            if states != held.states:
                held.states = states
            held.version = self._version
        return held.states

    def counts(self) -> dict[str, tuple[int, int]]:
        """Image name -> (size in bytes, number of nodes), for checks and dumps."""
        return {name: (record.size, record.num_nodes) for name, record in self._records.items()}

    def _hold(self, images: tuple[ContainerImage, ...]) -> ImageSet:
        held = self._sets.get(images)
        if held is None:
            held = self._sets[images] = ImageSet(images)
        for name, size in held.sizes.items():
            record = self._records.get(name)
            if record is None:
                record = self._records[name] = _Record(size)
            record.num_nodes += 1
            record.state = None
        self._version += 1
        return held

    def _introduce_again(self, held: ImageSet) -> None:
        """Upstream takes a node's images out and puts them back at every update of the node.

        A name that no other node holds is thereby new again, and has the size that this node reports.
        """
        for name, size in held.sizes.items():
            record = self._records[name]
            if record.size != size and record.num_nodes == 1:
                record.size = size
                record.state = None
                self._version += 1
