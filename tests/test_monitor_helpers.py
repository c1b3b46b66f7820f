"""A monitor and sites of helpers that do not answer; on real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

import tuplespace
from gcs import board as boards
from gcs.board import Board
from gcs.config import Config
from gcs.core.rulings import Invited, Rulings
from gcs.helper.desks import Desk, Presence
from tests import servers
from tests.monitors import monitor, until


def test_a_site_that_does_not_answer(tmp_path: Path) -> None:
    """The monitor sees the crawl and the helpers elsewhere, and says that of this site it hears nothing."""
    with servers.redis_server("redis") as redis, servers.redis_server("redis") as far:
        invited = {"near": Invited("office", bytes(32)), "far": Invited("there", bytes(32))}

        async def invite() -> None:
            async with tuplespace.connect(redis.url) as client:
                rulings = Rulings(epoch=1, helpers=invited)
                await Board(client, Config()).put_up(boards.RULINGS, 1, rulings.to_bytes())
                await Desk(client, Config(), "office").say(Presence("near", 1, 7, "well"))

        trio.run(invite)
        far_url = far.url.partition("?")[0]
        with monitor(redis.url, tmp_path, f"helpers.sites=office there@{far_url}") as one:

            def said() -> dict[str, Any]:
                return {row["helper"]: row for row in one.get("helpers")["helpers"]}

            until(lambda: said().get("near", {}).get("present"))
            assert not said()["far"]["present"]
            far.pause()
            try:
                until(lambda: "cannot be asked" in said()["far"]["says"])
                at = one.get("overview")["at"]
                until(lambda: one.get("overview")["at"] > at + 5)
                assert all(each["kind"] != "redis" for each in one.get("events")["events"])
            finally:
                far.resume()
            until(lambda: said()["far"]["says"] == "")
