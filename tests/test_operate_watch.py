"""`gcs status --watch`: alarms, what fits on a screen, and the command itself on a real terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gcs.core.holdings import Made
from gcs.core.rulings import Invited, Rulings
from gcs.operate.alarms import alarms
from gcs.operate.condition import condition
from gcs.operate.looking import View
from gcs.operate.overview import Overview, far_along, short
from gcs.operate.watching import Lines, Terminal, picture
from tests import servers
from tests.crawling import ROOT, command, server
from tests.gatherers import gatherers
from tests.test_operate import member, view

MADE = Made(7, 20.0, "join", 2, 3, 1200)


def with_facts(name: str, **facts: Any) -> Any:
    """A gatherer that says this of itself."""
    plain = member(name)
    return replace(plain, pulse=replace(plain.pulse, facts=facts))


def planned(seen: View, *made: Made) -> View:
    """The same, with plans that are remembered."""
    assert seen.charter is not None
    return replace(seen, charter=replace(seen.charter, history=list(made)))


def overview(seen: View, **more: Any) -> Overview:
    """What there is to say of a crawl."""
    return Overview("news", seen, condition(seen, forget_after_s=600.0), **more)


class TestAlarms:
    """What somebody should look at."""

    @staticmethod
    def of(seen: View, **more: float) -> list[str]:
        """The alarms of a crawl."""
        return alarms(seen, forget_after_s=600.0, **more)

    def test_none(self) -> None:
        """A crawl that is well, or whose hosts rest, raises none."""
        busy = with_facts("A", queued=5, unanswered_s=2.0, rest_s=0.0, beat_s=0.01)
        resting = with_facts("B", queued=5, unanswered_s=900.0, rest_s=300.0)
        assert self.of(view(busy, resting)) == []

    def test_silent(self) -> None:
        """A silent gatherer is named, with what happens if nobody does anything."""
        seen = view(member("A"), member("B"), silent="b")
        assert self.of(seen) == [
            "B is silent for 40s: start it again, or its part is given to others after 10m."
        ]
        long = self.of(replace(seen, at=1000.0))
        assert long == ["B is silent for 15m: its part is given to others with the next plan."]

    def test_stuck(self) -> None:
        """A queue without answers is an alarm if hosts may be asked, and the gatherer is not paused."""
        stuck = with_facts("A", queued=312, unanswered_s=120.0, rest_s=0.0)
        assert self.of(view(stuck)) == ["A has 312 queued and no answer for 2m: see its log."]
        assert self.of(view(stuck, rulings=Rulings(paused=frozenset({"A"})))) == []

    def test_room(self) -> None:
        """A full disk and a full outbox are told instead of what follows from them."""
        full = with_facts("A", queued=3, unanswered_s=120.0, rest_s=0.0, waits_for_room=True)
        boxed = with_facts("B", queued=3, unanswered_s=120.0, rest_s=0.0, outbox_is_full=True)
        boxed = replace(boxed, pulse=replace(boxed.pulse, pending={"a": 9}))
        assert self.of(view(full, boxed)) == [
            "A has no room on its disk and fetches nothing: free some, it goes on by itself.",
            "B fetches nothing, for its outbox is full: A takes too little.",
        ]

    def test_moving(self) -> None:
        """A range that should have arrived is told, from when its plan was made."""
        seen = view(member("A", leaving={"b": 2}), member("B"), at=200.0)
        assert self.of(planned(seen, MADE)) == [
            "2 ranges from A to B on the way for 3m: see the logs of both."
        ]
        assert self.of(planned(seen, MADE._replace(at=190.0))) == []

    def test_slow(self) -> None:
        """A slow Redis is told as gatherers see it, or else as it is from here."""
        assert self.of(view(with_facts("A", beat_s=2.5)), look_s=3.0) == [
            "Redis is slow: 2.5 s for a heartbeat of A; see to its machine and network."
        ]
        assert self.of(view(member("A")), look_s=3.0) == ["Redis is slow from here: 3.0 s for one look."]

    def test_barred(self) -> None:
        """A helper that is not believed is told for as long as it is invited."""
        seen = view(with_facts("A", barred=["desk7"]))
        assert self.of(seen) == []
        invited = Rulings(helpers={"desk7": Invited("office", b"")})
        assert self.of(replace(seen, rulings=invited)) == [
            "helper desk7 gave wrong answers and is not asked any more by A: `gcs helper revoke desk7`."
        ]


class TestPicture:
    """What is on the screen."""

    def test_size(self) -> None:
        """Whatever the size of the window, nothing is wider or longer, and lists say what they left out."""
        many = [member(f"gatherer-with-a-long-name-{n:02}", queued=10**n) for n in range(12)]
        helping = [
            {"helper": f"d{n}", "site": "office", "present": n > 3, "pages": n, "says": "It may work." * 9}
            for n in range(9)
        ]
        seen = planned(view(*many, silent=many[3].id), *[MADE] * 10)
        whole = overview(seen, helpers=helping, alarms=["B is silent."])
        for columns in (20, 60, 80, 200):
            for rows in (8, 14, 24, 50):
                lines = picture(whole, columns, rows)
                assert len(lines) <= rows
                assert max(map(len, lines)) <= columns
        lines = picture(whole, 80, 32)
        assert lines[0].startswith("crawl news ")
        assert "! B is silent." in lines
        assert sum(line.startswith("and ") for line in lines) == 2
        assert len(picture(whole, 80, None)) > 40

    def test_eighty_columns(self) -> None:
        """The table of gatherers is whole at 80 columns, also when numbers are large."""
        large = dict.fromkeys(["done", "failed", "outbox", "lent", "helped"], 88_888)
        each = with_facts("gatherer-with-a-long-name", queued=123_456_789, remaining_s=1e6, **large)
        rows = overview(view(each), rates={each.id: 1234.5}).gatherer_rows(80)
        assert max(map(len, rows)) <= 80
        assert rows[1].endswith("88888")

    def test_numbers(self) -> None:
        """Large numbers are short."""
        shown = [short(n) for n in (0, 99_999, 123_456, 1_234_567, 999_999, 12_345_678_901)]
        assert shown == ["0", "99999", "123k", "1.2M", "1.0M", "12G"]

    def test_how_far(self) -> None:
        """How far it is along is a share of what is known, until more can be said."""
        assert far_along({"done": 0, "dropped": 0, "queued": 0}, None) == "nothing is known yet"
        assert far_along({"done": 2, "dropped": 1, "queued": 3}, None) == "50% of the known URLs done"

    def test_lines(self) -> None:
        """Elsewhere than on a terminal there is a line when it is time, or something has changed."""
        stream = io.StringIO()
        crawling = overview(view(member("A", queued=5, under_way=1)))
        with Lines(stream) as display:
            for at in (140.0, 141.0, 151.0):
                display.show(replace(crawling, view=replace(crawling.view, at=at)))
            display.show(replace(crawling, alarms=["A is silent."]))
            for _ in range(2):
                display.trouble("Redis is away.")
        shown = stream.getvalue().splitlines()
        assert [line[:8] for line in shown] == ["00:02:20", "00:02:31", "00:02:20", "Redis is"]
        assert "ALARM: A is silent." in shown[2]

    def test_trouble(self) -> None:
        """While nothing can be seen, what was seen last stays under the reason."""
        stream = io.StringIO()
        with Terminal(stream) as display:
            display.show(overview(view(member("A", queued=5, under_way=1))))
            display.trouble("Redis is away.")
            display.resized()
        frame = stream.getvalue().split("\x1b[H")[-1]
        assert frame.index("Redis is away.") < frame.index("crawling: 5 queued")


def on_a_terminal(line: Sequence[str], *, columns: int, rows: int, until: str) -> tuple[str, int]:
    """Run a command on a terminal until it has shown something, then press Ctrl-C."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(line, cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    shown, deadline = b"", time.monotonic() + 20
    try:
        while until.encode() not in shown and time.monotonic() < deadline:
            shown += os.read(master, 1 << 16)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows // 2, columns // 2, 0, 0))
        child.send_signal(signal.SIGWINCH)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        while data := _read(master):
            shown += data
        return shown.decode(), child.wait(60)
    finally:
        child.kill()
        child.wait()
        os.close(master)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 1 << 16)
    except OSError:  # how a terminal says that it was closed
        return b""


def test_watch(tmp_path: Path) -> None:
    """A crawl is watched on a terminal that changes its size, by a program, and until a pipe closes."""
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 3, 30) as served,
        gatherers(redis, served, tmp_path / "g", ["member.leave_when_finished=false"]) as group,
    ):
        group.seed(served.web.seeds)
        group.start("alpha")
        group.until(lambda seen: "alpha" in seen and seen["alpha"].pulse.epoch, "a plan")
        line = [*command("status", "--watch"), "-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms"]

        shown, code = on_a_terminal(line, columns=80, rows=24, until="alpha")
        assert code == 0
        frames = [
            re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", frame).split("\r\n")
            for frame in shown.partition("\x1b[?25h")[0].split("\x1b[H")[1:]
        ]
        assert all(len(text) <= 80 for text in frames[0])
        assert all(len(text) <= 40 for text in frames[-1])
        assert shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l") == 1
        assert "last plans" in shown.partition("\x1b[?1049l")[2]

        child = subprocess.Popen([*line, "--json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdout is not None
        seen = [json.loads(child.stdout.readline()) for _ in range(2)]
        assert [each["gatherers"][0]["name"] for each in seen] == ["alpha", "alpha"]
        assert seen[1]["plans"][0]["reason"] == "first"
        child.stdout.close()
        assert child.wait(60) == 1
        assert child.stderr is not None
        assert child.stderr.read() == b""
        child.stderr.close()
