"""Ties the life of this process to the one that started it: a worker must not outlive its operator unseen.

The kernel is asked to send SIGTERM when the parent ends, however it came to its end; the process then stops as it does
whenever it is asked to. Other systems than Linux are asked every second who the parent is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PERIOD: Final = 1.0


def tether_to(parent: int) -> None:
    """Be sent SIGTERM when the process `parent` ends, which started this one; at once if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    else:
        threading.Thread(target=_watch, args=(parent,), name="tether", daemon=True).start()
    # It may have ended before it could be asked about; somebody else is the parent then.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PERIOD)
    os.kill(os.getpid(), signal.SIGTERM)
