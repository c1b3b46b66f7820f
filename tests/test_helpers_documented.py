"""The commands of docs/helpers.md, as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tests.crawling import ROOT
from tests.servers import redis_server

TEXT = (ROOT / "docs" / "helpers.md").read_text()
COMMANDS = re.findall(r"^```\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
RUNS_ON = re.compile(r"gcs helper --\S")


class Proxy(BaseHTTPRequestHandler):
    """Answers for every host."""

    def do_GET(self) -> None:
        """As the canary."""
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"OK\n")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def proxy() -> Iterator[str]:
    """A proxy for all of the web; its address."""
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_they_work(tmp_path: Path) -> None:
    """Who follows the document from its beginning gets an invitation, a helper that runs, and one file."""
    (settings,) = re.findall(r"^    \[helpers\]\n    sites = .*$", TEXT, re.MULTILINE)
    (tmp_path / "config.toml").write_text(textwrap.dedent(settings))
    with redis_server() as node, proxy() as everywhere:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
            "GCS_CONFIG": str(tmp_path / "config.toml"),
            "GCS_REDIS_URL": node.url,
            "GCS_FETCH_PROXY": everywhere,
        }

        def run(line: str) -> subprocess.CompletedProcess[str]:
            words = ["sh", "-ec", line]
            return subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )

        assert len(COMMANDS) == 3
        for command in COMMANDS:
            if not RUNS_ON.match(command):
                done = run(command)
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                continue
            with subprocess.Popen(["sh", "-ec", f"exec {command}"], cwd=tmp_path, env=environment) as child:
                deadline = time.monotonic() + 120
                while (said := run("gcs helper status")).returncode:
                    assert child.poll() is None
                    assert time.monotonic() < deadline, said
                    time.sleep(0.2)
                child.send_signal(signal.SIGTERM)
                assert child.wait(60) == 0
        assert run("./gcs-helper --help").returncode == 0
        assert "desk7" in run("gcs helper list").stdout
        assert "may not help any more" in run("gcs helper revoke desk7").stdout
