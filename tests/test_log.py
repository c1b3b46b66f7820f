"""Logging: the format for each kind of stream, and what a line of each looks like."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from gcs import log


@pytest.fixture(autouse=True)
def _structlog_as_before() -> Iterator[None]:
    """Structlog's configuration belongs to the process, so each test gives it back."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def lines(format_: str, level: str = "info", stream: TextIO | None = None) -> list[str]:
    """What a configured logger writes of one line of each level."""
    stream = stream or io.StringIO()
    log.configure(format_, level, stream)
    logger = structlog.get_logger().bind(host="a b")
    logger.debug("fine", n=1)
    logger.info("good", n=1)
    logger.warning("odd", n=1)
    logger.error("bad", n=1)
    assert isinstance(stream, io.StringIO)
    return stream.getvalue().splitlines()


class TestChosen:
    """What `auto` stands for."""

    def test_a_terminal(self) -> None:
        """On a terminal, lines are for people."""
        assert log.chosen("auto", Terminal(), {}) == "pretty"

    def test_no_terminal(self) -> None:
        """Everywhere else, lines are for machines."""
        assert log.chosen("auto", io.StringIO(), {}) == "json"

    def test_the_journal(self, tmp_path: Path) -> None:
        """The journal is recognised by device and inode, so a redirected child is not taken for it."""
        with (tmp_path / "a").open("w") as journal, (tmp_path / "b").open("w") as other:
            status = os.fstat(journal.fileno())
            environ = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
            assert log.chosen("auto", journal, environ) == "journald"
            assert log.chosen("auto", other, environ) == "json"

    @pytest.mark.parametrize("format_", ["pretty", "json", "journald"])
    def test_what_was_asked_for(self, format_: str) -> None:
        """A format that was asked for is used on any stream."""
        assert log.chosen(format_, Terminal(), {}) == format_


class TestLines:
    """What is written."""

    def test_json(self) -> None:
        """Each line is one JSON object with time, level, event and fields."""
        records = [json.loads(line) for line in lines("json")]
        assert [record["level"] for record in records] == ["info", "warning", "error"]
        assert all(record["timestamp"].endswith("Z") for record in records)
        assert {key: records[0][key] for key in ("event", "host", "n")} == {
            "event": "good",
            "host": "a b",
            "n": 1,
        }

    def test_json_takes_any_value(self) -> None:
        """A field that JSON has no form for is written as text rather than failing the caller."""
        stream = io.StringIO()
        log.configure("json", "info", stream)
        structlog.get_logger().info("x", path=Path("/a"))
        assert json.loads(stream.getvalue())["path"] == "/a"

    def test_journald(self) -> None:
        """Each line starts with the priority that journald reads, and leaves time and level to it."""
        assert lines("journald", "debug") == [
            '<7>event=fine host="a b" n=1',
            '<6>event=good host="a b" n=1',
            '<4>event=odd host="a b" n=1',
            '<3>event=bad host="a b" n=1',
        ]

    @pytest.mark.parametrize("format_", ["json", "journald"])
    def test_an_exception_is_one_line(self, format_: str) -> None:
        """A traceback stays inside its line, so that lines remain records."""
        stream = io.StringIO()
        log.configure(format_, "info", stream)
        try:
            raise ValueError("torn")
        except ValueError:
            structlog.get_logger().exception("failed")
        (line,) = stream.getvalue().splitlines()
        assert "ValueError: torn" in line

    def test_pretty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line for people has the event and the fields, and no colours where none are wanted."""
        monkeypatch.setenv("NO_COLOR", "1")
        good, odd, bad = lines("pretty", stream=Terminal())
        assert "good" in good
        assert "host='a b'" in good
        assert ("warning" in odd, "error" in bad) == (True, True)
        assert "\x1b" not in good + odd + bad

    @pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
    def test_levels(self, level: str, count: int) -> None:
        """Lines below the level are not written."""
        assert len(lines("json", level)) == count

    def test_standard_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Logs go to standard error, so that standard output stays what was asked for."""
        log.configure("json", "info")
        structlog.get_logger().info("here")
        out, err = capsys.readouterr()
        assert out == ""
        assert json.loads(err)["event"] == "here"
