"""Gatherers for tests: real processes of `gcs gatherer` on a real Redis and a synthetic web."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import trio

from gcs import board as boards
from gcs.board import Board, Member
from gcs.config import Config, load
from gcs.core.rulings import Rulings
from tests import measured
from tests.crawling import ROOT, command
from tests.servers import Node, state, until

PACE = (
    "member.heartbeat=200ms",
    "exchange.every=100ms",
    "exchange.again_after=1s",
    "rebalance.cooldown=2s",
    "rebalance.deadline=3s",
)


class Served(Protocol):
    """A web that they can crawl."""

    @property
    def hosts(self) -> Path:
        """The file with the addresses of its hosts."""


@dataclass(slots=True)
class Process:
    """A gatherer that runs, or ran."""

    name: str
    directory: Path
    log: Path
    child: subprocess.Popen[bytes] | None = None


class Gatherers:
    """Some gatherers of one crawl."""

    def __init__(
        self,
        redis: str,
        served: Served,
        place: Path,
        settings: Sequence[str] = (),
        *,
        pace: Sequence[str] = PACE,
        is_measured: bool = False,
    ) -> None:
        """If they are measured, coverage slows them down."""
        self.served, self.place = served, place
        self._environment = measured.environment() if is_measured else dict(os.environ)
        self._settings = [
            *pace,
            "store.keep_free=0B",
            f"redis.url={redis}",
            "member.leave_when_finished=true",
            *settings,
        ]
        self.processes: dict[str, Process] = {}

    @property
    def config(self) -> Config:
        """The configuration that they share."""
        return load(overrides=self._settings, environ={}, system_file=Path("/nonexistent")).config

    def put(self, name: str, directory: Path) -> None:
        """Let one that was not started yet keep its store elsewhere."""
        self.processes[name] = Process(name, directory, self.place / f"{name}.log")

    def _process(self, name: str) -> Process:
        if name not in self.processes:
            self.put(name, self.place / name)
        return self.processes[name]

    def start(self, name: str, *settings: str, within: Sequence[str] = ()) -> None:
        """Start one, or start it again; `within` is what makes its command run elsewhere."""
        process = self._process(name)
        line = [*within, *command("gatherer", "--into", str(process.directory), hosts=self.served.hosts)]
        for each in (*self._settings, f"member.name={name}", *settings):
            line += ["-s", each]
        with process.log.open("ab") as log:
            process.child = subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log, env=self._environment)

    def invite(self, name: str, *options: str) -> Path:
        """Invite a helper; the file that lets it help."""
        into = self.place / f"{name}.invitation"
        line = command("helper", "invite", name, "--into", str(into), *options)
        for each in self._settings:
            line += ["-s", each]
        subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
        return into

    def help(self, name: str, invitation: Path, *options: str, settings: Sequence[str] = ()) -> None:
        """Start a helper, or start it again."""
        process = self._process(name)
        runtime = self.place / f"{name}.run"
        runtime.mkdir(exist_ok=True, mode=0o700)
        line = command("helper", "--invitation", str(invitation), *options, hosts=self.served.hosts)
        for each in settings:
            line += ["-s", each]
        with process.log.open("ab") as log:
            environment = {**self._environment, "XDG_RUNTIME_DIR": str(runtime)}
            process.child = subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log, env=environment)

    def kill(self, name: str) -> None:
        """Kill one."""
        child = self.processes[name].child
        assert child is not None
        child.send_signal(signal.SIGKILL)
        child.wait()

    def halt(self, name: str) -> None:
        """Let one stand still, as if its machine hung."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state(pid) == "T", f"{name} to stand still")

    def go_on(self, name: str) -> None:
        """Let one that stands still go on."""
        os.kill(self.pid(name), signal.SIGCONT)

    def pid(self, name: str) -> int:
        """Its process."""
        child = self.processes[name].child
        assert child is not None
        return child.pid

    def lose(self, name: str) -> None:
        """Kill one, and delete its disk."""
        self.kill(name)
        shutil.rmtree(self.processes[name].directory)

    def drain(self, name: str) -> None:
        """Tell one to give everything to others and to leave."""
        member = self.members()[name].id
        self.ask(lambda board: board.order(member, "test", "drain", {}, within_s=60))

    def rule(self, change: Callable[[Rulings, int], Rulings]) -> None:
        """Change what is ruled."""
        self.ask(lambda board: board.rule(change))

    def stop(self) -> None:
        """End all."""
        for process in self.processes.values():
            if process.child is not None and process.child.poll() is None:
                process.child.kill()
                process.child.wait()

    def wait(self, timeout_s: float, *, but: Sequence[str] = ()) -> dict[str, int]:
        """The exit codes, when all have ended by themselves."""
        deadline = time.monotonic() + timeout_s
        codes = {}
        for name, process in self.processes.items():
            if name not in but and process.child is not None:
                codes[name] = process.child.wait(max(0.1, deadline - time.monotonic()))
        return codes

    # What they say

    def ask(self, question: Callable[[Board], Any]) -> Any:
        """Ask the board something."""

        async def asked() -> Any:
            async with boards.opened(self.config) as board:
                return await question(board)

        return trio.run(asked)

    def members(self) -> dict[str, Member]:
        """By name, as the board has them."""
        found = self.ask(lambda board: board.members())
        return {member.pulse.name: member for member in found.values()}

    def seed(self, urls: Sequence[str]) -> None:
        """Give them something to begin with."""
        self.ask(lambda board: board.seed(urls))

    def until(
        self, condition: Callable[[dict[str, Member]], object], what: str, timeout_s: float = 150
    ) -> None:
        """Wait until the members say something."""
        deadline = time.monotonic() + timeout_s
        while not condition(self.members()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: {self.members()}")
            time.sleep(0.1)


@contextmanager
def gatherers(
    redis: Node | str, served: Served, place: Path, settings: Sequence[str] = (), **options: Any
) -> Iterator[Gatherers]:
    """Some gatherers, all of which end with the block."""
    place.mkdir(exist_ok=True)
    url = redis if isinstance(redis, str) else redis.url
    group = Gatherers(url, served, place, settings, **options)
    try:
        yield group
    finally:
        group.stop()
