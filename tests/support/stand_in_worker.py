"""A process that behaves towards its supervisor as a worker does, or misbehaves as its configuration says.

python stand_in_worker.py --config FILE --ready-file FILE --bind HOST:PORT --tether PID

The configuration is JSON: {"text": ..., "crash": exit code at the start, "silent": answers nothing, "deaf": ignores
SIGTERM}. /status says which text it read last, as the generation of a profile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from stowplan_operator.tether import tether_to


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--bind")
    parser.add_argument("--tether", type=int)
    given = parser.parse_args()
    told = json.loads(given.config.read_text())
    if told.get("crash"):
        sys.exit(told["crash"])
    signal.signal(signal.SIGTERM, signal.SIG_IGN if told.get("deaf") else lambda *_: sys.exit(0))
    tether_to(given.tether)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            while told.get("silent"):
                time.sleep(1)
            now = json.loads(given.config.read_text())
            profile = {"profile": "dense", "generation": now["generation"], "hash": "h", "mode": "Active"}
            status = {"leading": True, "synced": True, "error": "", "profiles": [profile], "pid": os.getpid()}
            body = json.dumps(status).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    scratch = given.ready_file.with_suffix(".scratch")
    scratch.write_text(json.dumps({"pid": os.getpid(), "port": server.server_port}))
    scratch.replace(given.ready_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
