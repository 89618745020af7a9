"""The scheduler core: decides what kube-scheduler v1.37.2 decides, as a state machine without IO, clock or threads.

Events come in with the caller's time, effects go out as data. The simulator and the live worker are two interpreters
of the same effects. Nothing in this package imports asyncio, a Kubernetes client, ``time`` or ``random``; import-linter
enforces it.
"""

from __future__ import annotations

__version__ = "0.1.0"
