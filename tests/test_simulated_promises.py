"""What the web's servers saw is judged: which requests come too soon, and which of those are excused."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest
import trio

from gcs.fetch.outcome import Origin
from gcs.simulate.cluster import promises
from gcs.simulate.cluster.clock import JumpingClock
from gcs.simulate.cluster.fetching import Server, SimulatedFetching, web_of
from gcs.simulate.cluster.world import Dead, MachineWorld
from gcs.simulate.verdict import Request

DELAY_S = 0.2


class Asked(NamedTuple):
    """A request, and whether it was sent late."""

    at_s: float
    who: str
    is_late: bool = False


def server_of() -> tuple[Server, list[str]]:
    server = Server(web_of(1, 40, plain=True))
    server.addresses.clear()
    return server, [each.name for each in server.web.hosts]


def found(server: Server) -> list[str]:
    return promises.broken(server, [], {}, (), DELAY_S, is_snapshot=False, is_standing=False)


def hurried(*requests: Asked, hosts: Sequence[int] = (0,)) -> int:
    """How many requests are found to come too soon, of hosts in turn that share an address."""
    server, names = server_of()
    if len(hosts) > 1:
        server.addresses.update({names[each]: ("127.1.0.1",) for each in hosts})
    for number, (at_s, who, is_late) in enumerate(requests):
        request = Request(at_s, 0.1, names[hosts[number % len(hosts)]], "/", 200, 10, who)
        server.log.append(request)
        if is_late:
            server.late.add(request)
    return sum("after the last time" in each for each in found(server))


@pytest.mark.parametrize("hosts", [(0,), (0, 1)])
def test_requests_that_come_too_soon_are_found(hosts: tuple[int, ...]) -> None:
    assert hurried(Asked(1.0, "g0"), Asked(1.3, "g1"), Asked(1.6, "g0"), hosts=hosts) == 0
    assert hurried(Asked(1.0, "g0"), Asked(1.1, "g1"), Asked(1.2, "g0"), hosts=hosts) == 2


def test_what_is_sent_late_may_be_close_to_what_others_send() -> None:
    assert hurried(Asked(9.9, "g1"), Asked(10.0, "g0", is_late=True), Asked(10.1, "g1")) == 0
    assert hurried(Asked(9.9, "g1"), Asked(10.0, "g0", is_late=False), Asked(10.1, "g1")) == 2


def test_what_is_sent_late_hides_nothing_of_others() -> None:
    assert hurried(Asked(9.9, "g1"), Asked(10.0, "g0", is_late=True), Asked(10.05, "g2")) == 1


def test_who_sends_late_knows_when_it_did() -> None:
    assert hurried(Asked(10.0, "g0", is_late=True), Asked(10.1, "g0")) == 1
    assert hurried(Asked(10.0, "g0", is_late=True), Asked(10.0, "g0", is_late=True), hosts=(0, 1)) == 1


def test_what_a_host_did_not_want_yet_may_only_come_late() -> None:
    server, names = server_of()
    request = Request(11.0, 0.1, names[0], "/", 200, 10, "g0")
    server.log.append(request)
    server.rests.append((names[0], "/", 10.0, 12.0))
    assert any("was asked for at 11.000" in each for each in found(server))
    server.late.add(request)
    assert not any("was asked for at 11.000" in each for each in found(server))


class TestStandingStill:
    """What a machine was about to send when it stood still."""

    @staticmethod
    def _sent(*, is_killed: bool) -> tuple[Server, list[str]]:
        """What one sends that stands still from 1.0 to 3.0, or is killed then."""
        server, names = server_of()
        ended: list[str] = []

        async def run() -> None:
            world = MachineWorld(Random(1))
            fetching = SimulatedFetching(server, world, "g0")

            async def ask(at_s: float, host: str) -> None:
                await trio.sleep(at_s)
                try:
                    await fetching.fetch(Origin("http", host, 80), "/")
                except Dead:
                    ended.append(host)

            async with trio.open_nursery() as nursery:
                for number, at_s in enumerate((0.1, 2.0, 4.0)):
                    nursery.start_soon(ask, at_s, names[number])
                await trio.sleep(1.0)
                world.stop()
                await trio.sleep(2.0)
                world.is_alive = not is_killed
                world.go_on()

        clock = JumpingClock()
        with clock.in_force():
            trio.run(run, clock=clock)
        return server, ended

    def test_it_is_sent_late(self) -> None:
        server, ended = self._sent(is_killed=False)
        assert [round(each.start, 3) for each in server.log] == [0.1, 3.0, 4.0]
        assert [each.start for each in server.late] == [server.log[1].start]
        assert ended == []

    def test_it_is_not_sent_by_one_that_is_killed(self) -> None:
        server, ended = self._sent(is_killed=True)
        assert [round(each.start, 3) for each in server.log] == [0.1]
        assert not server.late
        assert len(ended) == 2
