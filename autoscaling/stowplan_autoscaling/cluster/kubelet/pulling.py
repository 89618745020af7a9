"""How the containers of one pod come by their images: at once, after a pull, or later after a back-off.

Follows pkg/kubelet/images/image_manager.go (EnsureImageExists) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .backoff import BACK_OFF, IMAGE_INITIAL, IMAGE_MAX, BackOff

if TYPE_CHECKING:
    from .containers import ContainerState
    from .pod_worker import PodWorker


class Pulling:
    """Asks the node's images for those of a pod, one at a time."""

    __slots__ = ("_since", "_worker")

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker
        self._since = 0
        """Since when the pod waits for the present one."""

    def get(self, each: ContainerState) -> bool:
        """Have the image of a container there and start it; returns whether the worker's pass can go on at once."""
        worker = self._worker
        now, back_off = worker.env.kernel.now, each.image_back_off
        if back_off is not None:
            if now < back_off.ends(now):
                message = f'Back-off pulling image "{each.image}"'
                worker.env.event(worker.key, BACK_OFF, message, warning=False)
                worker.fail(each)
                return True
            if worker.timeline.started is None:
                worker.timeline.image_wait += now - back_off.last
        self._since = now
        found = worker.node.images.ensure(each.image, each.pull_policy, lambda ok: self._pulled(each, ok=ok))
        if found is None:
            return False
        if not found:
            message = f'Container image "{each.image}" is not present with pull policy of Never'
            worker.env.event(worker.key, "ErrImageNeverPull", message)
            worker.fail(each)
            return True
        return worker.image_is_there(each)

    def _pulled(self, each: ContainerState, *, ok: bool) -> None:
        worker = self._worker
        if worker.is_frozen or worker.has_ended:
            return
        now = worker.env.kernel.now
        if worker.timeline.started is None:
            worker.timeline.image_wait += now - self._since
        if not ok:
            if each.image_back_off is None:
                each.image_back_off = BackOff(IMAGE_INITIAL, IMAGE_MAX)
            each.image_back_off.next(now, now)
            worker.env.event(worker.key, "Failed", f'Failed to pull image "{each.image}"')
            worker.fail(each)
            worker.go_on()
        elif worker.image_is_there(each):
            worker.go_on()
