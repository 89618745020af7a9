"""Becomes another program that ends with whoever started this one, however that came to its end (Linux).

python tether.py PROGRAM [ARGUMENT...]
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """The kernel is asked to kill this process when its parent ends; that holds for what the process becomes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
