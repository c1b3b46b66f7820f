"""Monitors for tests: `gcs monitor` as users run it, on a real Redis, and how to ask it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.crawling import ROOT, command

PATIENCE_S = 120.0
# fmt: off
READ = (
    "overview", "gatherers", "history", "tree", "plans", "languages", "countries", "traffic", "helpers",
    "events", "rates", "hosts", "pages", "status", "nodes", "queues", "seeds",
)
# fmt: on
"""What can be asked for without parameters, also of a crawl without a plan."""


@dataclass(slots=True)
class Monitor:
    """One that runs."""

    child: subprocess.Popen[str]
    url: str
    directory: Path

    @property
    def tokens(self) -> dict[str, str]:
        """The token of each role."""
        kept: dict[str, str] = json.loads((self.directory / "tokens.json").read_text())
        return {role: kept[role] for role in ("view", "operate")}

    def client(self, role: str = "") -> httpx.Client:
        """Somebody with a role, by token."""
        headers = {"authorization": f"Bearer {self.tokens[role]}"} if role else {}
        return httpx.Client(base_url=f"{self.url}api/", headers=headers, timeout=PATIENCE_S)

    def get(self, path: str, role: str = "view", **parameters: Any) -> Any:
        """What is answered."""
        with self.client(role) as client:
            answer = client.get(path, params=parameters)
            assert answer.status_code == httpx.codes.OK, (path, answer.status_code, answer.text)
            return answer.json()

    def has_seen(self) -> bool:
        """Whether it has looked at the crawl since it was started."""
        with self.client("view") as client:
            answer = client.get("overview")
            return answer.status_code == httpx.codes.OK and bool(answer.json()["at"])

    def post(self, path: str, value: object, role: str = "operate") -> Any:
        """What came of a change."""
        with self.client(role) as client:
            answer = client.post(path, json=value)
            assert answer.status_code == httpx.codes.OK, (path, answer.status_code, answer.text)
            return answer.json()


@contextmanager
def monitor(redis: str, directory: Path, *settings: str) -> Iterator[Monitor]:
    """`gcs monitor` until the block is left."""
    line = command("monitor", "--into", str(directory))
    for each in ("monitor.listen=127.0.0.1:0", f"redis.url={redis}", "member.heartbeat=200ms", *settings):
        line += ["-s", each]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            said: list[str] = []
            while not (said and said[-1].startswith("To look only: ")):
                said.append(child.stderr.readline())
                assert said[-1], said
            yield Monitor(child, said[-2].split()[1].partition("#")[0], directory)
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


def until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Wait for something, and give it."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return found


def events(lines: Iterator[str], topics: Sequence[str]) -> dict[str, Any]:
    """The next event of each topic of a stream."""
    found: dict[str, Any] = {}
    topic = ""
    for line in lines:
        if line.startswith("event: "):
            topic = line.removeprefix("event: ")
        elif line.startswith("data: ") and topic in topics and topic not in found:
            found[topic] = json.loads(line.removeprefix("data: "))
        if len(found) == len(topics):
            return found
    raise AssertionError(f"the stream ended before all of {topics} had come")
