"""What the web's servers saw is judged: which requests come too soon, and which of those are excused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gcs.simulate.cluster import promises
from gcs.simulate.cluster.fetching import Server, web_of
from gcs.simulate.cluster.promises import Pause
from gcs.simulate.verdict import Request

DELAY_S = 0.2
STOOD_STILL = ("g0", 5.0, 10.0)


def hurried(requests: Sequence[tuple[float, str]], pauses: Sequence[Pause], *, shared: bool = False) -> int:
    """How many requests are found to come too soon; when they were sent, and by whom."""
    server = Server(web_of(1, 40, plain=True))
    hosts = [each.name for each in server.web.hosts[:2]]
    server.addresses.clear()
    if shared:
        server.addresses.update(dict.fromkeys(hosts, ("127.1.0.1",)))
    for number, (at_s, who) in enumerate(requests):
        host = hosts[number % 2 if shared else 0]
        server.log.append(Request(at_s, 0.1, host, "/", 200, 10, who))
    found = promises.broken(server, [], {}, (), DELAY_S, pauses, is_snapshot=False, is_standing=False)
    return sum("after the last time" in each for each in found)


@pytest.mark.parametrize("shared", [False, True])
def test_requests_that_come_too_soon_are_found(*, shared: bool) -> None:
    assert hurried([(1.0, "g0"), (1.3, "g1"), (1.6, "g0")], [], shared=shared) == 0
    assert hurried([(1.0, "g0"), (1.1, "g1"), (1.2, "g0")], [], shared=shared) == 2


def test_what_was_about_to_be_sent_comes_late_and_is_excused() -> None:
    assert hurried([(9.9, "g1"), (10.0, "g0")], [STOOD_STILL]) == 0
    assert hurried([(10.0, "g0"), (10.1, "g1")], [STOOD_STILL]) == 0
    assert hurried([(9.9, "g1"), (10.0, "g2")], [STOOD_STILL]) == 1


def test_a_machine_that_stood_still_sends_one_request_late_and_no_more() -> None:
    assert hurried([(10.0, "g0"), (10.1, "g0")], [STOOD_STILL]) == 1
    assert hurried([(9.9, "g1"), (10.0, "g0"), (10.005, "g0")], [STOOD_STILL]) == 1
    assert hurried([(10.1, "g1"), (10.2, "g0")], [STOOD_STILL]) == 1
