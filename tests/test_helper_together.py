"""The owner's side of a helper with all its real parts: the machine at hand, HTTP, a socket."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from gcs.core.consent import Terms
from gcs.fetch.transport import Transport
from gcs.helper import portal
from gcs.helper.pause import Control, tell
from gcs.helper.portal import FAILURES, Canary
from gcs.helper.surroundings import Desktop, Senses
from gcs.helper.warden import Warden
from tests.scripted import Peer, ok, serve, settings
from tests.test_fetch import until

WORD = "The canary sings.\n"
LOGIN = ok(b"<form action=/login>Welcome to the train. Please log in.</form>")


async def test_an_evening(tmp_path: Path) -> None:
    """A helper works, is paused and resumed, and stops when a portal comes between it and the web."""
    answer = ok(WORD.encode())

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(answer)

    async with serve(script) as server, Transport(portal.settings(settings())) as transport:
        canary = Canary.saying(f"{server.origin}/canary", WORD)
        terms = Terms.read(hours="00:00-24:00", when_idle="0s", on_battery=True, max_memory="16GiB")
        warden = Warden(terms, Senses(Desktop().sources).look, partial(portal.check, transport, canary))
        async with trio.open_nursery() as nursery:
            await nursery.start(Control(warden, tmp_path).serve)
            nursery.start_soon(warden.run)
            await warden.wait_until_may_work()
            said = await tell("status", tmp_path)
            assert said.may_work
            assert said.sentence.startswith("It may work: the desktop is idle for ")

            assert (await tell("pause", tmp_path)).sentence == "The owner has paused it."
            await warden.wait_until_must_stop()
            await tell("resume", tmp_path)
            await warden.wait_until_may_work()
            assert await warden.vouch()

            answer = LOGIN
            for _ in range(FAILURES):
                warden.failed()
            await warden.wait_until_must_stop()
            await until(lambda: warden.sentence.startswith("Something else than the web"))
            assert not await warden.vouch()
            nursery.cancel_scope.cancel()
    assert len(server.requests) == 4
