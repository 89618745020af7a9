"""Seeds of tests that kill things at random moments: a few in every run, more when `make soak` asks for them."""

from __future__ import annotations

import os
from typing import Final

MORE: Final = range(100, 100 + int(os.environ.get("STOWPLAN_FAULT_SEEDS", "0")))
"""Further seeds. Each is two deaths of a worker, one of the API server, one of etcd, and two of an operator."""
