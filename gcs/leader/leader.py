"""A round of planning, led by whichever gatherer takes the wish for one.

The wish is a leased tuple, so when a leader dies at any step another one finds it again and begins anew.
Every plan needs an election of its own: its token is the epoch of the plan, and a leader that was replaced
meanwhile is refused when it publishes. Until it is published nothing has changed for anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import trio

from gcs import board as boards
from gcs.board import Board, Member, Wish
from gcs.core import rounds
from gcs.core.holdings import NOBODY, Charter, Made, Range, Standing, are_disjoint, facts
from gcs.core.placement import Plan, Sites
from gcs.core.reasons import OPERATOR
from gcs.domains import registered_domain
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.membership import Membership
from gcs.gatherer.node import Node
from gcs.leader.reports import Account, by_site, levels
from tuplespace import Leadership, LeadershipLost, TupleSpaceError, election

AT_ONCE: Final = frozenset({"first", "join", "drain", "lost", OPERATOR})
"""Reasons that do not wait for the cool-down."""
OUTCOMES: Final = ("published", "failed")
"""What can come of a round."""
_NEEDED: Final = AT_ONCE - {OPERATOR}
"""Reasons without which a crawl might not come to its end."""
_LEASE_S: Final = 10.0
_SETTLED_WITHIN_S: Final = 60.0
_PAUSE_S: Final = 1.0
_REMEMBERED: Final = 10
"""Plans that a charter tells of, for people who ask what has happened lately."""


class Leader:
    """The part of a gatherer that leads, when it is its turn, and that reports to whoever leads."""

    def __init__(
        self,
        node: Node,
        board: Board,
        membership: Membership,
        exchange: Exchange,
        *,
        delays: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """`delays` are those that this gatherer has measured, by site, when it reports."""
        self._delays = delays
        self._node, self._board, self._membership, self._exchange = node, board, membership, exchange
        self._sites = Sites(registered_domain)
        self.rounds: Counter[str] = Counter()
        """Rounds that were led here, by what came of them."""

    # Reporting

    async def account(self) -> bytes:
        """What this gatherer has seen since the last plan, and what it holds."""
        node = self._node
        seen = node.crawl.expansion.to_bytes()
        node.crawl.reported()
        paces = list(node.crawl.paces)
        with_levels = await node.world.offload(lambda: levels(seen, node.store.hosts()))
        report = rounds.Report(
            gatherer=node.id,
            expansion=with_levels,
            paces=by_site(paces, self._sites),
            delays=self._delays(),
            together=node.crawl.census.together,
            crossing=(self._exchange.crossing[0], self._exchange.crossing[1]),
        )
        pieces = node.on_disk[1].pieces(Standing.HELD, Standing.LEAVING, Standing.COMING)
        holds = [(piece.start, piece.end) for piece in pieces]
        return Account(report, holds, node.heading, sorted(node.came_back())).to_bytes()

    async def answer(self, token: int) -> None:
        """Report to a leader."""
        try:
            await self._board.report(token, self._node.id, await self.account())
        except TupleSpaceError as error:
            self._node.log.warning("cannot report", why=str(error))

    # Leading

    async def run(self) -> None:
        """Take wishes for a new plan, and make it."""
        while True:
            try:
                async with self._board.space.take(
                    "rebalance", str, str, str, many=100, lease=_LEASE_S
                ) as taken:
                    asked = [Wish(*map(str, wish)) for _, *wish in taken]
                    settled = await self._settled()
                    wishes = [wish for wish in asked if self._holds(wish)]
                    if not settled or (self._is_due(wishes) and not await self._led(wishes)):
                        taken.give_back()
                        await trio.sleep(_PAUSE_S)
            except (TupleSpaceError, LeadershipLost) as error:
                self._node.log.warning("a round of planning failed", why=str(error))
                await trio.sleep(_PAUSE_S)

    async def _led(self, wishes: Sequence[Wish]) -> bool:
        """Whether a round came to its end, well or not; the next leader would fail by the same mistake."""
        try:
            return await self.lead(wishes) is not None
        except (TupleSpaceError, LeadershipLost):
            self.rounds["failed"] += 1
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError):
            self.rounds["failed"] += 1
            self._node.log.exception("no new plan could be made")
            return True

    async def _settled(self) -> bool:
        """Wait for news of the others, and for ranges that are on their way; False if that takes long."""
        with trio.move_on_after(_SETTLED_WITHIN_S):
            await self._membership.looked.wait()
            while not (self._membership.members and self._membership.is_settled()):
                await self._membership.looked.wait()
            return True
        self._node.log.warning("no new plan yet: ranges are still on their way")
        return False

    def _holds(self, wish: Wish) -> bool:
        """Whether the reason is still one: the plan before may have done what this one was asked for."""
        charter, membership = self._node.charter, self._membership
        if charter is None:
            return True
        match wish.reason:
            case "first":
                return False
            case "join":
                joining = (each for each in membership.alive() if each.pulse.standing != "draining")
                return any(each.id not in charter.members for each in joining)
            case "drain":
                draining = (each for each in membership.alive() if each.pulse.standing == "draining")
                return any(each.id in charter.members for each in draining)
            case "lost":
                return bool(membership.missing())
        return True

    def _is_due(self, wishes: Sequence[Wish]) -> bool:
        """Whether there was no plan lately, or a wish does not wait; who still wants one says so again."""
        reasons = {wish.reason for wish in wishes}
        return bool(reasons) and (self._node.has_cooled() or not AT_ONCE.isdisjoint(reasons))

    async def lead(self, wishes: Sequence[Wish], *, dry: bool = False) -> Charter | None:
        """One round: ask, plan, publish; None if it has to be begun anew. A dry one publishes nothing.

        Once no range is on its way under the charter in force, that stays so until there is another, and that
        cannot be while this one leads. So heartbeats that say so are good enough, even if they are old; of
        rows that come late reports tell. There is a newer charter only if Redis has lost its last second;
        those who follow it tell so by the end.
        """
        node = self._node
        with ExitStack() as decision:
            async with election(
                self._board.space, boards.LEADER, lease=_LEASE_S, floor=node.epoch
            ) as leadership:
                charter = None
                try:
                    charter = await self._agreed(leadership, wishes, dry=dry)
                finally:
                    if charter is None or dry:
                        # Those who stayed for a new plan, though the end was declared, may go.
                        await self._board.put_up(
                            boards.CALL, leadership.token, boards.OVER, fence=leadership.fence
                        )
                if charter is None or dry:
                    return charter
                decision.enter_context(node.deciding(charter.epoch))
                await self._publish(charter)
            await node.adopt(charter)
        return charter

    async def _publish(self, charter: Charter) -> None:
        """Let a charter be in force."""
        await self._board.publish(charter)
        self.rounds["published"] += 1
        self._node.log.info(
            "published a plan",
            epoch=charter.epoch,
            reason=charter.reason,
            members=len(charter.members),
            moved=round(charter.forecast.get("moved", 0)),
        )

    async def _agreed(self, leadership: Leadership, wishes: Sequence[Wish], *, dry: bool) -> Charter | None:
        """A charter that may be published, by what all have reported; None if none is to be made now."""
        node, now = self._node, await self._board.now()
        if now.get(boards.CHARTER, (0, b""))[0] > node.epoch or not self._membership.is_settled():
            return None
        if node.is_going:
            return None
        if node.charter is None and any(each.pulse.epoch for each in self._membership.members.values()):
            return None  # there is a plan, which Redis has lost
        if not dry and self._is_ending(now, self._membership.members, wishes):
            return None
        if not self._is_due([wish for wish in wishes if self._holds(wish)]):
            return None  # another leader was sooner
        reasons = sorted({wish.reason for wish in wishes})
        node.log.info("leads a round", token=leadership.token, reasons=reasons)
        accounts = await self._collect(leadership, boards.DRY if dry else b"")
        members, lost = dict(self._membership.members), self._membership.lost()
        if not self._agree(accounts, lost, boards.left_of(members)):
            return None
        back = {*self._membership.returned, *(each for said in accounts.values() for each in said.came_back)}
        plan = partial(self._planned, leadership.token, wishes, accounts, members, lost, back=back)
        charter = await node.world.offload(plan)
        if dry:
            return charter
        if not self._membership.is_settled():
            return None  # Redis has lost a plan that somebody follows, and says so by now
        known, members = members, await self._board.members()
        if self._is_ending(now, members, wishes) or not boards.left_of(members).isdisjoint(charter.members):
            return None
        if any(_has_beaten(each, known, members) for each in lost):
            return None  # it is back, and may go on with what it had
        return charter

    def _agree(self, accounts: Mapping[str, Account], lost: Set[str], left: Set[str]) -> bool:
        """Whether all that have reported hold what they should by the plan that this one follows."""
        if any(each.heading > self._node.epoch for each in accounts.values()):
            return False  # somebody follows a plan that Redis has lost, or is about to
        if not (lost - left).isdisjoint(accounts):
            return False  # one that was lost is back, and may not know yet that it was
        held = [account.holds for account in accounts.values()]
        if (charter := self._node.charter) is not None:
            silent = charter.members.keys() - lost - accounts.keys()
            held += [charter.owners.ranges(each) for each in silent]
        return are_disjoint(held)  # else rows came late, and are on their way to their owner

    def _is_ending(
        self, now: Mapping[str, tuple[int, bytes]], members: Mapping[str, Member], wishes: Sequence[Wish]
    ) -> bool:
        """Whether the end was declared, and somebody who believes it may have gone, and follows no plan.

        Until somebody says so, a plan is made if the end may not come without it. After that too, if there is
        something for one that has gone.
        """
        declared = now.get(boards.FINISHED, (0, b""))[0]
        if declared <= self._node.epoch or not self._node.leaves_when_finished:
            return False
        is_needed = any(wish.reason in _NEEDED for wish in wishes)
        ended = {each for each, member in members.items() if member.pulse.ended}
        if self._membership.missing():
            known = self._membership.members
            back = {each for each in ended if each in known and members[each].beat > known[each].beat}
            ended &= self._membership.heard_of() | back
        return not is_needed or bool(ended)

    async def _collect(self, leadership: Leadership, what_for: bytes) -> dict[str, Account]:
        """The reports of all that answer before the deadline."""
        node = self._node
        asked = [each.id for each in self._membership.alive() if each.id != node.id]
        await self._board.put_up(boards.CALL, leadership.token, what_for, fence=leadership.fence)
        own = await self.account()
        answers = await self._board.reports(leadership.token, asked, node.config.rebalance.deadline_s)
        accounts = {each: Account.from_bytes(data) for each, data in answers.items()}
        return accounts | {node.id: Account.from_bytes(own)}

    def _planned(
        self,
        epoch: int,
        wishes: Sequence[Wish],
        accounts: Mapping[str, Account],
        members: Mapping[str, Member],
        lost: set[str],
        *,
        back: Collection[str] = (),
    ) -> Charter:
        """The next charter. It may take long.

        Who is lost for a second time, and was `back` meanwhile, may have sent something then.
        """
        config, before = self._node.config, self._node.charter
        left, counted = boards.left_of(members), set(before.members if before else ())
        # One that has left since it reported must not get anything.
        accounts = {each: account for each, account in accounts.items() if each not in left}
        draining = {each for each, m in members.items() if m.pulse.standing == "draining"}
        known = {*counted, *accounts} - lost
        pinned = known - accounts.keys()
        owners = sorted(accounts.keys() - draining)
        if not owners:
            # The last one wants to leave: it keeps what it has until another one comes.
            owners = sorted(accounts)
            draining = set()
        held: dict[str, list[Range]] = {each: list(account.holds) for each, account in accounts.items()}
        for each in pinned:
            held[each] = before.owners.ranges(each) if before else []
        sources = facts(held)
        plan = partial(
            rounds.replan,
            rounds.Terms(
                strategy=config.placement.strategy,
                method=next((wish.method for wish in wishes if wish.method), config.partition.method),
                split_hosts=config.placement.split_hosts,
                delta=config.partition.delta,
                worth=config.partition.worth,
            ),
            members=owners,
            reports=[account.report for account in accounts.values()],
            holdings=sources,
            seed=epoch % (1 << 32),
            domain=registered_domain,
            pinned=sorted(pinned),
            leaving=sorted(draining & accounts.keys()),
        )
        try:
            outcome = plan(state=before.state if before else None)
        except ValueError:
            self._node.log.exception("what the last leader knew cannot be read, and is learned anew")
            outcome = plan(state=None)
        names = {each: members[each].pulse.name for each in owners if each in members}
        names |= {each: (before.members.get(each, each) if before else each) for each in pinned}
        gone_before = set(before.departed if before else ())
        departed = (gone_before | lost) - accounts.keys() - pinned
        destroyed = {
            **(before.destroyed if before else {}),
            **dict.fromkeys(lost - left - gone_before.difference(back), epoch),
        }
        made = Made(
            epoch,
            self._node.clock(),
            _reason(wishes),
            len(owners) + len(pinned),
            len(sources.changes(outcome.plan)),
            round(outcome.forecast.moved),
        )
        return Charter(
            epoch=epoch,
            owners=outcome.plan,
            sources=sources,
            members={each: names.get(each, each) for each in (*owners, *sorted(pinned))},
            # Something may have been passed to one that has left, if a plan counted on it.
            lost=_lost(before, sources, lost - (left - counted) - gone_before),
            departed=sorted(departed),
            destroyed={each: by for each, by in sorted(destroyed.items()) if each in departed},
            reason=_reason(wishes),
            strategy=config.placement.strategy,
            state=outcome.state,
            expansion=outcome.expansion,
            forecast=_shown(outcome.forecast),
            probes=[(probe.site, probe.gatherer) for probe in outcome.probes],
            history=[*(before.history if before else ()), made][-_REMEMBERED:],
        )


def _has_beaten(gatherer: str, before: Mapping[str, Member], now: Mapping[str, Member]) -> bool:
    """Whether a gatherer was there meanwhile."""
    beat = before[gatherer].beat if gatherer in before else 0
    return gatherer in now and now[gatherer].beat != beat and now[gatherer].pulse.standing != "left"


def _reason(wishes: Sequence[Wish]) -> str:
    """Why there is a new plan; an operator may have said more."""
    told = {
        f"{wish.reason}: {wish.who}" if wish.reason == OPERATOR and wish.who else wish.reason
        for wish in wishes
    }
    return ", ".join(sorted(told))


def _lost(before: Charter | None, sources: Plan, gone: set[str]) -> list[Range]:
    """The ranges of which something was lost.

    Those that somebody held, and nobody does any more; those that belonged to who is gone, though they may
    have been on their way there: what was found in them since the last plan was passed to that one only; and
    those that were to come from who is gone, which may have come in part.
    """
    if before is None:
        return []
    ranges = [*sources.ranges(NOBODY), *(each for member in gone for each in before.owners.ranges(member))]
    ranges += [
        (start, end) for start, end, source, _ in before.sources.changes(before.owners) if source in gone
    ]
    merged: list[Range] = []
    for start, end in sorted(ranges, key=lambda each: each[0]):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            last = merged[-1][1]
            merged[-1] = merged[-1][0], None if last is None or end is None else max(last, end)
        else:
            merged.append((start, end))
    return merged


def _shown(forecast: rounds.Forecast) -> dict[str, Any]:
    return {**asdict(forecast), "times": dict(forecast.times)}
