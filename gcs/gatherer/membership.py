"""Being one of several: heartbeats, what they tell of the others, and what follows from that.

A member is a counter that grows. Whether one is lost is decided by the clock of whoever watches it, and only
over a time in which Redis was within reach all along: when Redis comes back after an hour, everyone is alive.

The end is proven, not guessed. All members say that they are quiet: nothing queued, under way, leaving,
coming or waiting in an outbox. Then all say so a second time, each later than all did the first time, and no
counter of activity has moved between: so there was a moment at which all were quiet at once, with nothing on
its way.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgpack
import trio

from gcs import board as boards
from gcs.board import Board, Member, Pulse
from gcs.core.holdings import Piece, Standing
from gcs.core.rulings import Rulings
from gcs.errors import ConfigError
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.node import Node, Received
from gcs.gatherer.statistics import Statistics
from gcs.gatherer.turns import PRIVATE
from tuplespace import Fenced, Tenure, TupleSpaceError, election

_IDLE_S: Final = 3.0
_MUCH: Final = 100
"""URLs that others have to have queued before an idle gatherer asks for some."""
_LIVELY_BEATS: Final = 5.0
_JOIN_AGAIN_S: Final = 5.0
_LEAST_T_S: Final = 10.0
_ELECTION_S: Final = 10.0
_KEPT_S: Final = 2.0
"""What Redis was told so long ago it does not forget when it dies: it is on its disk."""
_WAIT_S: Final = 30.0
_FIRST_LOOKS: Final = 2
"""A newcomer looks around so often before it takes a crawl for one that has no plan yet."""
_LONG_LOOKS: Final = 30
CAUGHT_UP: Final = "caught up"
"""It has nothing to do before the next page is due again."""
STANDINGS: Final = ("joining", "crawling", "paused", "draining", "finished", CAUGHT_UP, "left")
"""What a gatherer can be doing."""
_Round = dict[str, tuple[int, str, int, int]]
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Membership:
    """The heartbeat of one gatherer, and its view of the others."""

    def __init__(
        self,
        node: Node,
        board: Board,
        exchange: Exchange,
        answer: Callable[[int], None],
        meet: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """`answer` is called with the token of a leader who wants a report; `meet` is of turns."""
        self._node, self._board, self._exchange, self._answer = node, board, exchange, answer
        self._meet, self._met, self._met_at = meet, 0, math.inf
        self._looked_at = -math.inf
        self._tenure, self._is_restarted = Tenure(), node.charter is not None
        """That of the board's server, and whether it may have been started since there was a charter."""
        self._heard: set[str] = set()
        """All that this process has ever heard of."""
        self.members: dict[str, Member] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        """By member: its beat, and when that last grew by our clock."""
        self.returned: set[str] = set()
        """Those whose beat was seen to grow, since a charter said that they are gone, if one did."""
        self._unheard: set[str] = set()
        """Those whose beat has not grown since Redis was out of reach."""
        self._followed = 0
        """The epoch of the charter that was in force at the last look."""
        # A counter that goes on growing after a restart.
        self._beat = round(node.clock() * 1000)
        self._called = 0
        self._call_from = (0, math.inf)
        """The token of a call that came after the end, and since when it is known."""
        self._forsaken = trio.Event()
        self._forgotten = trio.Event()
        """Set when Redis has lost the charter that is followed here."""
        self._ended_from = math.inf
        """Since when every heartbeat says that the end was seen here."""
        self._asked: dict[str, float] = {}
        self._waiting: dict[Piece, float] = {}
        self._idle_since: float | None = None
        self._wake = trio.Event()
        self._first_round: _Round | None = None
        self._proven = trio.Event()
        self._since_end: tuple[int, dict[str, int]] | None = None
        """The token of the end that was declared, and all beats when it was first seen."""
        self._looks = 0
        self._beat_s = 0.0
        """How long Redis took for the last heartbeat."""
        self._news = trio.Event()
        self._newest = (0, (0, b""))
        """The epoch of the charter in force, and the rulings."""
        self._rested_at = node.clock()
        self._watched = (0, -math.inf)
        """The newest sign that somebody watches, and when it came."""
        self.reached_at = -math.inf
        """When the members were last looked at."""
        self.is_within_reach = False
        """Whether Redis was, the last time that it was tried."""
        self.looked = trio.Event()
        """Set, and replaced, whenever the members were looked at."""
        self.further_reasons: list[Callable[[], str]] = []
        """Why others want a new plan; "" if they do not. Asked when one may be made."""

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants to be told what is found."""
        return trio.current_time() - self._watched[1] < boards.WATCHED_S

    # What others are like

    def alive(self) -> list[Member]:
        """Those whose counters grow, and this one."""
        now = trio.current_time()
        limit = _LIVELY_BEATS * self._node.config.member.heartbeat_s + 1
        return [
            member
            for member in self.members.values()
            if member.pulse.standing != "left"
            and (member.id == self._node.id or now - self._seen[member.id][1] < limit)
        ]

    def lost(self) -> set[str]:
        """Ids of those that have stood still for too long, and of those that have left."""
        left = boards.left_of(self.members)
        # Who was declared lost before stays so until it is heard of again; this one is there.
        charter = self._node.charter
        departed = set(charter.departed if charter else ()) - self.returned - {self._node.id}
        return self._still() | left | departed

    def _still(self) -> set[str]:
        """Those whose counters have not grown for too long."""
        now = trio.current_time()
        silent = {each: now - at for each, (_, at) in self._seen.items() if each != self._node.id}
        return {each for each, for_s in silent.items() if for_s > self._forget_after_s(each)}

    def heard_of(self) -> set[str]:
        """Ids of those that are alive, and not lost."""
        return {each.id for each in self.alive()} - self.lost()

    def _forget_after_s(self, member: str) -> float:
        """One that said it counts on more time than we would give it has that time."""
        ours = self._node.config.member.forget_after_s
        return max(ours, self.members[member].pulse.forget_after_s) if member in self.members else ours

    def missing(self) -> set[str]:
        """Those that are lost, and that no plan has counted as departed since they were last heard of.

        That may be one that was drained.
        Who has left is missing only if a plan counts on it, which was made before anybody knew.
        """
        left = boards.left_of(self.members)
        charter = self._node.charter
        if charter is not None:
            left -= charter.members.keys()
        wanted = {to for each in self.members.values() for to in each.pulse.pending}
        departed = set(charter.departed if charter else ()) - self.returned
        departed -= self._still() & self._node.came_back()
        return self.lost() - left - departed - (self._ended() - wanted)

    def _ended(self) -> set[str]:
        """Those that believed the end and are gone: they have nothing to do by what they said last.

        So it may be proven without them that all is over, whoever was started again since.
        """
        alive = self.heard_of()
        return {
            each.id
            for each in self.members.values()
            if each.id not in alive
            and each.pulse.ended
            and each.pulse.quiet
            and each.pulse.epoch == self._node.epoch
        }

    def have_met(self, start: int, lease_s: float) -> bool:
        """Whether all that may rely on leases have met the server of turns since a start of it.

        Whoever has left relies on none, nor who was declared lost if that took as long as a lease lasts.
        Redis may have forgotten that somebody is there: who lives has said so again within two heartbeats.
        """
        if self._met != start or self._looked_at < self._met_at + 2 * self._node.config.member.heartbeat_s:
            return False
        charter = self._node.charter
        counted, departed = (set(charter.members), set(charter.departed)) if charter else (set(), set())
        over = {each for each in departed - self.returned if self._forget_after_s(each) >= lease_s}
        there = (self._heard | counted) - over - (boards.left_of(self.members) - counted)
        return all(each in self.members and self.members[each].pulse.met == start for each in there)

    def is_settled(self) -> bool:
        """Whether all that are not lost follow the same charter, and no range is on its way between them.

        Not before all were heard again, if Redis was out of reach: it may have lost what they said last.
        """
        lost, epoch = self.lost(), self._node.epoch
        if (self._unheard & self._seen.keys()) - lost:
            return False
        charter = self._node.charter
        expected = {*(charter.members if charter else ()), *self.members} - lost
        unsure = self._unsure()
        for each in expected:
            member = self.members.get(each)
            if member is None:
                return False
            pulse = member.pulse
            if pulse.heading > epoch or each in unsure:
                return False
            if pulse.standing == "joining" and not pulse.epoch:
                continue
            if pulse.epoch != epoch or any(peer not in lost for peer in (*pulse.leaving, *pulse.coming)):
                return False
        return True

    def _unsure(self) -> set[str]:
        """Those who may follow a charter by now that Redis has lost.

        When it is started, which need not be noticed, it may lose one that was just put up. So what counts is
        what was said by those who knew of the start; but for those who had seen the end and are gone, and for
        what is left of some that never came to anything.
        """
        if not self._is_restarted and self._tenure.from_nothing:
            return set()
        start = self._tenure.start
        said = {each: member.pulse for each, member in self.members.items()}
        unsure = {each for each, pulse in said.items() if pulse.board_start not in (start, boards.UNSAID)}
        known = {*self.returned, *(each.id for each in self.alive())}
        return {each for each in unsure - self._ended() if said[each].epoch or each in known}

    # The heartbeat

    async def run(self) -> None:
        """Beat, look around, and act on it; raises ConfigError when another one has this name."""
        await self._claim_name()
        told = False
        while True:
            try:
                await self._look_around()
                told, self.is_within_reach, self.reached_at = False, True, trio.current_time()
            except TupleSpaceError as error:
                self.is_within_reach = False
                if not told:
                    self._node.log.warning("no heartbeat", why=str(error))
                    told = True
                # Nobody is lost for what could not be seen.
                now = trio.current_time()
                self._seen = {each: (beat, now) for each, (beat, _) in self._seen.items()}
                self._unheard = self._seen.keys() - {self._node.id}
                self._first_round = None
                self._ended_from = math.inf
            is_ending = self._first_round is not None or self._since_end is not None
            every_s = self._node.config.member.heartbeat_s
            await self._node.world.until(self._wake, every_s / 4 if is_ending else every_s)
            self._wake = trio.Event()

    async def keep_awake(self) -> None:
        """Beat at once when there is something to say: that it is quiet, that much was received."""
        quiet = False
        while True:
            every_s = self._node.config.member.heartbeat_s
            await trio.sleep(every_s / 10)
            if quiet:  # until something comes there is nothing new to say
                await self._node.world.until(self._exchange.received, every_s)
            was_quiet, quiet = quiet, self._node.is_quiet()
            if self._exchange.received.is_set() or (quiet and not was_quiet):
                self._exchange.received = trio.Event()
                self._wake.set()
            if not quiet:
                await self._node.keep_heard()

    async def _claim_name(self) -> None:
        """Refuse to be the second of one name: one that has it, and whose counter grows."""
        node = self._node
        while True:
            try:
                first = await self._board.members()
                same = {each for each, m in first.items() if m.pulse.name == node.name and each != node.id}
                same = {each for each in same if first[each].pulse.standing != "left"}
                if same:
                    await trio.sleep(3 * node.config.member.heartbeat_s)
                    later = await self._board.members()
                    alive = [each for each in same if each in later and later[each].beat > first[each].beat]
                    if alive:
                        raise namesake(node)
                return
            except TupleSpaceError as error:
                node.log.warning("waiting for Redis", why=str(error))
                await trio.sleep(node.config.member.heartbeat_s)

    def pulse(self) -> Pulse:
        """What this gatherer says of itself."""
        node = self._node
        epoch, holdings = node.on_disk
        leaving = Counter(piece.peer for piece in holdings.pieces(Standing.LEAVING))
        coming = Counter(piece.peer for piece in holdings.pieces(Standing.COMING))
        return Pulse(
            name=node.name,
            incarnation=node.incarnation,
            epoch=epoch,
            rulings=node.rulings.epoch,
            started=node.started,
            standing=self.standing(),
            applied=self._exchange.applied,
            quiet=node.is_quiet(),
            ended=node.finished,
            met=self._met,
            board_start=self._tenure.start,
            heading=node.heading,
            activity=node.crawl.activity,
            forget_after_s=node.config.member.forget_after_s,
            leaving=dict(leaving),
            coming=dict(coming),
            pending={to: box.entries for to, box in node.store.outboxes().items() if box.next > box.first},
            facts=self._facts(),
        )

    def _facts(self) -> Statistics:
        return {**self._node.facts(), "beat_s": round(self._beat_s, 3)}

    def standing(self) -> str:
        """What it does, in a word that all gatherers use."""
        node = self._node
        if node.has_left:
            return "left"
        if node.draining:
            return "draining"
        if node.charter is None or node.id not in node.charter.members:
            return "joining"
        if node.finished:
            return CAUGHT_UP if node.config.revisit.is_standing else "finished"
        return "paused" if node.rulings.is_paused(node.name) else "crawling"

    async def _look_around(self) -> None:
        node = self._node
        self._beat += 1
        began = trio.current_time()
        pulse = self.pulse()
        await self._board.beat(node.id, self._beat, pulse)
        said_at = trio.current_time()
        self._beat_s = said_at - began
        self._ended_from = min(self._ended_from, said_at) if pulse.ended else math.inf
        looked_at, tenure = trio.current_time(), await self._board.space.tenure()
        self._is_restarted |= self._tenure.start not in (0, tenure.start)
        self._tenure = tenure
        self.members = await self._board.members()
        self._looked_at = looked_at
        self._heard |= self.members.keys()
        self._watch()
        self._refuse_namesakes()
        self._exchange.heard(list(self.members.values()))
        self._join_round()
        node.joining = frozenset(self._joining())
        node.has_told_the_end &= pulse.ended
        now = await self._board.now()
        await self._follow(now)
        # Whoever calls for a new plan sees that this one may be gone, or this one has seen the call.
        node.has_told_the_end = pulse.ended and node.leaves_when_finished and await self._is_kept(said_at)
        if node.is_over():
            node.crawl.stir()
        if now.get(boards.CHARTER, (0, b""))[0] <= node.epoch:
            node.heard(began, said_at, pulse.forget_after_s, is_called=self._is_planned(now))
        self._looks += 1
        self.looked.set()
        self.looked = trio.Event()
        await self._want(now)
        await self._stop_waiting()
        self._see_the_call(now)
        self._see_the_end()
        await self._meet_server()

    def _is_planned(self, now: Mapping[str, tuple[int, bytes]]) -> bool:
        """Whether a plan may be on its way: one is called for, or followed though Redis has lost it."""
        token, what_for = now.get(boards.CALL, (0, b""))
        epoch, alive = self._node.epoch, {each.id: each.pulse for each in self.alive()}
        is_lost = any(pulse.heading > epoch for pulse in alive.values()) or self._unsure() & alive.keys()
        return (token > epoch and not what_for) or bool(is_lost)

    async def _meet_server(self) -> None:
        """See whether the server of turns was started again, which may be another one than the board's.

        What was said of a start stays true. The heartbeat does not wait for that server for long, unless it
        stops answering while a pause is said again: that is committed or not, as one step.
        """
        if self._meet is None:
            return
        met = 0
        with suppress(TupleSpaceError), trio.move_on_after(self._node.config.member.heartbeat_s):
            met = await self._meet()
        if met not in (0, self._met):
            self._met, self._met_at = met, trio.current_time()

    async def _is_kept(self, said_at: float) -> bool:
        """Whether Redis cannot forget any more that this one has seen the end, by what was said at a time.

        If it forgot, those who are left would take this one for lost, and fetch all again that it had.
        """
        if await self._board.turns.rdp(*PRIVATE) is not None:
            return True
        return said_at >= self._ended_from + _KEPT_S

    def _watch(self) -> None:
        """Note whose counters have grown; those of the charter that say nothing stand still too."""
        now = trio.current_time()
        charter = self._node.charter
        if charter is not None and charter.epoch != self._followed:
            self._followed = charter.epoch
            self.returned -= set(charter.departed)
        known = {*self.members, *(charter.members if charter else ())}
        for each in known:
            beat = self.members[each].beat if each in self.members else 0
            if each not in self._seen or self._seen[each][0] != beat:
                if each in self._seen:
                    self.returned.add(each)
                    if beat > self._seen[each][0]:
                        self._unheard.discard(each)
                self._seen[each] = (beat, now)
        self._seen = {each: self._seen[each] for each in known}

    # What follows

    def _joining(self) -> set[str]:
        """Others that are there, and say that they are no members yet."""
        return {each.id for each in self.alive() if each.pulse.standing == "joining"} - {self._node.id}

    def _join_round(self) -> None:
        """Of those who visit every page once more, all go by who began first: pages change hands."""
        if self._node.crawl.round_at is None:
            return
        # What is left of an earlier round says nothing: it does not beat.
        others = [self.members[each].pulse for each in self.returned if each in self.members]
        # Nor does one that waits for room to write down that it has ended.
        begun = [each.facts.get("round_at") for each in others if each.standing != "left" and not each.ended]
        self._node.crawl.round_began(min((float(at) for at in begun if at), default=math.inf))

    async def _follow(self, now: Mapping[str, tuple[int, bytes]]) -> None:
        """See what is newer, and put up again what Redis has lost."""
        node = self._node
        epoch = now.get(boards.CHARTER, (0, b""))[0]
        if epoch < node.epoch:
            self._forgotten.set()
        token, what_for = now.get(boards.CALL, (0, b""))
        if token > max(self._called, node.epoch) and what_for != boards.OVER and not node.is_going:
            self._called = token
            self._answer(token)
        watched = now.get(boards.WATCHED, (0, b""))[0]
        if watched != self._watched[0]:
            self._watched = (watched, trio.current_time())
        rulings = now.get(boards.RULINGS, (0, b""))
        if rulings[0] < node.rulings.epoch:
            ours = node.rulings
            await self._board.rule(lambda newest, _: ours if ours.epoch > newest.epoch else newest)
        self._newest = (epoch, rulings)
        if epoch > node.epoch or rulings[0] > node.rulings.epoch:
            self._news.set()
        ended = node.rulings.ended(self._rested_at, node.clock())
        self._rested_at = node.clock()
        if ended:
            node.crawl.release(ended)
        node.gone = frozenset(self._gone())
        declared, quiet = now.get(boards.FINISHED, (0, b""))
        is_called = not what_for and token > declared
        node.finished = node.is_going or (self._has_ended(declared, quiet, epoch) and not is_called)
        if boards.FINISHED in now and node.config.revisit.is_standing and not node.crawl.has_caught_up:
            await self._board.take_down(boards.FINISHED)
        await self._leave_if_done()

    async def follow(self) -> None:
        """Adopt what is newer, beside the heartbeat: a full disk must not stop that."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            epoch, (_, rulings) = self._newest
            try:
                with self._node.deciding(epoch):
                    charter = await self._board.charter(epoch) if epoch > self._node.epoch else None
                    if charter is not None:
                        await self._node.adopt(charter)
                if rulings:
                    await self._node.obey(Rulings.from_bytes(rulings))
            except TupleSpaceError as error:
                self._node.log.warning("cannot read what is in force", why=str(error))
            except ValueError as error:
                self._node.log.exception("what is in force cannot be understood", why=str(error))
                await trio.sleep(_IDLE_S)

    def _gone(self) -> set[str]:
        """Who takes nothing more: those that have left, and those of whom nothing is known any more."""
        charter = self._node.charter
        known = {*self.members, *(charter.members if charter else ())}
        left = boards.left_of(self.members)
        to = self._node.store.outboxes()
        return left | {each for each in to if each not in known and self._looks > _LONG_LOOKS}

    def _refuse_namesakes(self) -> None:
        """Of two living ones with one name, the one that began later has to go."""
        node = self._node
        for each in self.alive():
            pulse = each.pulse
            same = pulse.name == node.name and each.id != node.id and pulse.standing != "left"
            if same and each.id in self.returned and (pulse.started, each.id) < (node.started, node.id):
                raise namesake(node)

    async def _stop_waiting(self) -> None:
        """What is long said to come, from one with the same charter and nothing for us, is here."""
        node, now = self._node, trio.current_time()
        waited_for = set()
        for piece in node.holdings.pieces(Standing.COMING):
            peer = self.members.get(piece.peer)
            pulse = peer.pulse if peer else None
            if pulse and pulse.epoch == node.epoch and node.id not in {*pulse.leaving, *pulse.pending}:
                waited_for.add(piece)
        self._waiting = {piece: self._waiting.get(piece, now) for piece in waited_for}
        over = [piece for piece, since in self._waiting.items() if now - since > _WAIT_S]
        if over:
            node.log.warning("stopped waiting for ranges that nobody has", ranges=len(over))
            ends = [(piece.peer, (piece.start, piece.end)) for piece in over]
            await node.take_in(lambda: Received(ends=ends))

    def _see_the_call(self, now: Mapping[str, tuple[int, bytes]]) -> None:
        """Have a call be ended that came after the end, and of which no plan has come for long."""
        call = now.get(boards.CALL, (0, b""))
        declared = now.get(boards.FINISHED, (0, b""))[0]
        if call[1] or not max(self._node.epoch, self._newest[0]) < declared < call[0]:
            self._call_from = (0, math.inf)
            return
        if self._call_from[0] != call[0]:
            self._call_from = (call[0], trio.current_time())
        if trio.current_time() >= self._call_from[1] + _ELECTION_S:
            self._forsaken.set()

    async def end_calls(self) -> None:
        """Let nobody stay, though the end was declared, for a plan whose leader has died.

        A leader that lives renews its lease, and nobody else is elected before its round is over.
        """
        while True:
            await self._forsaken.wait()
            self._forsaken = trio.Event()
            if not (token := self._call_from[0]):
                continue
            with trio.move_on_after(_ELECTION_S), suppress(TupleSpaceError):
                async with election(
                    self._board.space, boards.LEADER, lease=_ELECTION_S, floor=token
                ) as leadership:
                    if (await self._board.now()).get(boards.CALL) == (token, b""):
                        await self._board.put_up(boards.CALL, token, boards.OVER, fence=leadership.fence)

    async def remind(self) -> None:
        """Put up the charter again when Redis has lost it, beside the heartbeat.

        Somebody may lead a round who does not know of it, and must hear of it before that is over.
        """
        while True:
            await self._forgotten.wait()
            self._forgotten = trio.Event()
            try:
                await self._publish_again()
            except TupleSpaceError as error:
                self._node.log.warning("cannot put up the plan again", why=str(error))

    async def _publish_again(self) -> None:
        """Redis has an older charter, or none: it has lost this one."""
        charter = self._node.charter
        assert charter is not None
        if (await self._board.now()).get(boards.CHARTER, (0, b""))[0] >= charter.epoch:
            return
        try:
            await self._board.publish(charter, is_elected=False)
        except Fenced:
            # Somebody was elected since, but not of necessity for a plan.
            with trio.move_on_after(_ELECTION_S) as waiting:
                async with election(
                    self._board.space, boards.LEADER, lease=_ELECTION_S, floor=charter.epoch
                ) as leadership:
                    now = await self._board.now()
                    if now.get(boards.CHARTER, (0, b""))[0] >= charter.epoch:
                        return
                    await self._board.publish(charter, fence=leadership.fence)
            if waiting.cancelled_caught:
                return
        self._node.log.info("published the plan again", epoch=charter.epoch)

    async def _leave_if_done(self) -> None:
        """Who was drained leaves when nobody has anything for it, and others know what it knew."""
        node = self._node
        charter = node.charter
        if charter is None or not node.gives_all_away() or not node.is_quiet():
            return
        if self._newest[0] > charter.epoch:
            return  # by the newer plan it may have something after all
        others = {*charter.members, *self.members} - self.lost() - {node.id}
        heard = [self.members[each].pulse for each in others if each in self.members]
        if len(heard) < len(others) or any(
            pulse.epoch != charter.epoch or node.id in pulse.pending for pulse in heard
        ):
            return
        # Only now: before, others may have had something that was still to be passed on from here.
        if node.has_testified():
            # It ends when this was heard: nobody else could say that it has left, and was not lost.
            self._beat += 1
            await self._board.beat(node.id, self._beat, replace(self.pulse(), standing="left"))
            if node.charter is not charter:
                return  # it has something again, and says so with the next beat
            node.has_left = True
            node.crawl.stir()

    async def _want(self, now: Mapping[str, tuple[int, bytes]]) -> None:
        """Ask for a new plan where there is a reason for one."""
        node = self._node
        charter = node.charter
        if charter is None:
            others_know = any(each.pulse.epoch for each in self.members.values())
            if boards.CHARTER not in now and not others_know and self._looks > _FIRST_LOOKS:
                await self._ask("first")
            return
        if node.id not in charter.members and not node.draining:
            await self._ask("join")
        staying = any(each.pulse.standing != "draining" for each in self.alive())
        if node.draining and node.id in charter.members and staying:
            await self._ask("drain")
        if self.missing():
            await self._ask("lost")
        if not node.has_cooled() or not self.is_settled():
            return
        reasons = (self._uneven, *self.further_reasons)
        reason = next((why for each in reasons if (why := each())), "")
        if reason:
            await self._ask(reason)

    def _uneven(self) -> str:
        """Why the work should be shared out anew; "" if it need not."""
        node, config = self._node, self._node.config
        others = [each for each in self.alive() if each.id != node.id]
        queued = max((int(each.pulse.facts.get("queued", 0)) for each in others), default=0)
        idle = node.crawl.is_idle and not node.store.counts().queued and not node.rulings.is_paused(node.name)
        if not idle:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = trio.current_time()
        elif trio.current_time() - self._idle_since > _IDLE_S and queued > _MUCH:
            return "idle"
        # Who has something left, and has fetched nothing since the last plan, cannot say how long it needs.
        facts = [each.pulse.facts for each in self.alive()]
        known = [each for each in facts if each.get("rate") or not each.get("queued")]
        times = [float(each.get("remaining_s", 0.0)) for each in known]
        mean = sum(times) / len(times) if times else 0.0
        if len(times) > 1 and max(times) > _LEAST_T_S and max(times) > config.rebalance.imbalance * mean:
            return "imbalance"
        return self._event()

    def _event(self) -> str:
        """The first event of the configuration that has come."""
        events = self._node.config.rebalance.when
        if not events:
            return ""
        facts = self._facts()
        for event in events:
            sign = next(sign for sign in _COMPARE if sign in event)
            name, _, limit = event.partition(sign)
            value: Any = facts.get(name)
            if isinstance(value, int | float) and _COMPARE[sign](value, float(limit)):
                return event
        return ""

    async def _ask(self, reason: str) -> None:
        now = trio.current_time()
        if now - self._asked.get(reason, -_JOIN_AGAIN_S) < _JOIN_AGAIN_S:
            return
        self._asked[reason] = now
        await self._board.ask_for_plan(reason, self._node.name)

    # The end

    def _see_the_end(self) -> None:
        """Compare two rounds of heartbeats in which all are quiet."""
        now = self._round()
        before, self._first_round = self._first_round, now
        if now is None or before is None or before.keys() != now.keys():
            return
        if any(before[each][1:] != now[each][1:] for each in now):
            return
        self._first_round = before
        # The first beat after that of the first round may have been made before it was heard here.
        if all(now[each][0] >= before[each][0] + 2 for each in now) and min(now) == self._node.id:
            self._proven.set()

    def _round(self) -> _Round | None:
        """Beat, incarnation, activity and epoch of all members; None unless all are quiet."""
        charter, lost = self._node.charter, self.lost()
        if charter is None or self._since_end is not None or not self.is_settled():
            return None
        ended = self._ended()
        if self.missing() or any(each in lost for each in charter.members if each not in ended):
            return None  # what it had has to be found again first
        members = {each: member for each, member in self.members.items() if each not in lost | ended}
        if not members or any(each not in members for each in charter.members if each not in lost | ended):
            return None
        pulses = {each: member.pulse for each, member in members.items()}
        if not all(pulse.quiet and pulse.epoch == charter.epoch for pulse in pulses.values()):
            return None
        # Also by what those said who are gone: who came when they had done all would wait for ever.
        facts = [member.pulse.facts for member in self.members.values()]
        if not any(each.get("done", 0) or each.get("dropped", 0) for each in facts):
            return None  # it has not begun
        return {
            each: (members[each].beat, pulse.incarnation, pulse.activity, pulse.epoch)
            for each, pulse in pulses.items()
        }

    async def conclude(self) -> None:
        """Declare the crawl finished when that is proven and no seeds wait."""
        while True:
            await self._proven.wait()
            self._proven = trio.Event()
            proven = self._first_round
            with suppress(TupleSpaceError):
                async with election(
                    self._board.space, boards.LEADER, lease=_ELECTION_S, floor=self._node.epoch
                ) as leadership:
                    seeds_wait = await self._board.seeds_wait()
                    epoch = (await self._board.now()).get(boards.CHARTER, (0, b""))[0]
                    newest = max(epoch, self._node.epoch)
                    holds = self._first_round is proven and not seeds_wait
                    if proven is not None and holds and all(said[3] == newest for said in proven.values()):
                        quiet = msgpack.packb({each: said[1:3] for each, said in proven.items()})
                        await self._board.put_up(
                            boards.FINISHED, leadership.token, quiet, fence=leadership.fence
                        )
                        self._node.log.info("finished")
            self._first_round = None
            self._wake.set()

    def _has_ended(self, token: int, data: bytes, epoch: int) -> bool:
        """Whether the end was declared, after the plan of an epoch, and all say that nothing has come since.

        A seed that was taken at that very moment shows in the beats of whoever took it; so everybody waits
        for two more of each, and those who go say so. For one that was active, started again or came since,
        it holds when all the others say that they have seen it: nobody is left to declare it anew.
        """
        node = self._node
        quiet: dict[str, tuple[str, int]] = msgpack.unpackb(data, use_list=False) if data else {}
        unchanged = quiet.get(node.id) == (node.incarnation, node.crawl.activity)
        is_quiet = node.is_quiet() if node.charter else not node.store.counts().queued
        is_newest = token > max(node.epoch, epoch) and not self._is_behind(epoch)
        if not is_newest or not is_quiet or not (unchanged or self._is_last_of(quiet)):
            self._since_end = None
            return False
        if self._since_end is None or self._since_end[0] != token:
            self._since_end = (token, {each: m.beat for each, m in self.members.items()})
        seen = self._since_end[1]
        others = {each: self.members.get(each) for each in quiet if each != node.id}
        for each, member in others.items():
            if member is None or (member.pulse.incarnation, member.pulse.activity) != quiet[each]:
                self._since_end = None  # it does not hold any more, and has to be proven anew
                return False
        # One that has seen the end has heard all the others twice, also those that were lost since.
        return any(member and member.pulse.ended for member in others.values()) or all(
            member and member.pulse.quiet and member.beat >= seen.get(each, member.beat) + 2
            for each, member in others.items()
        )

    def _is_behind(self, epoch: int) -> bool:
        """Whether there is a plan, that of an epoch or of others, which is not followed here yet."""
        epochs = (epoch, *(each.pulse.epoch for each in self.alive()))
        return self._node.charter is not None and max(epochs) > self._node.epoch

    def _is_last_of(self, quiet: Mapping[str, tuple[str, int]]) -> bool:
        """Whether all the others of those who were quiet have said that they saw the end.

        And are heard, or gone: one that was started again meanwhile has not said anything else yet.
        """
        me, charter = self._node.id, self._node.charter
        others = [self.members.get(each) for each in quiet if each != me]
        is_counted = me in quiet or charter is None or me not in charter.members
        silent = self.heard_of() - self.returned
        return (
            bool(quiet)
            and is_counted
            and all(each is not None and each.pulse.ended and each.id not in silent for each in others)
        )


def namesake(node: Node) -> ConfigError:
    """Another one has the name."""
    return ConfigError(
        f"another gatherer named {node.name} is in the crawl {node.config.crawl.name}; "
        "give this one another name with -s member.name=NAME."
    )
