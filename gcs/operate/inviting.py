"""`gcs helper invite`, `gcs helper revoke` and `gcs helper list`: who may help."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import trio

from gcs.board import Board
from gcs.config import SETTINGS, Config
from gcs.core.rulings import Invited, Rulings
from gcs.core.urls import Rejected, canonical
from gcs.errors import ConfigError, UsageError
from gcs.fetch.outcome import Failure, Origin
from gcs.fetch.transport import Transport
from gcs.helper import desks
from gcs.helper.invitation import Invitation
from gcs.helper.papers import KEY_BYTES
from gcs.helper.portal import Canary, settings
from gcs.helper.sites import Access, Site
from gcs.operate import accounts
from gcs.operate.accounts import NotDone, without_credentials
from gcs.operate.asking import Answer
from gcs.operate.helping import helpers
from tuplespace import rights

_UNDO_S: Final = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `gcs helper invite` was asked for."""

    name: str
    site: str
    """"" for the only one."""
    into: Path
    url: str
    """Where helpers reach the server; "" for where the gatherers do."""
    canary: str
    by_hand: bool
    """Whether somebody else makes the user."""


async def invite(board: Board, config: Config, *, wanted: Wanted) -> Answer:
    """Let a machine help: a user on the site's server, a key, and a file that has both.

    When something fails nobody is invited, and there is no file.
    """
    if not _NAME(wanted.name):
        raise UsageError(
            f"{wanted.name!r} cannot be the name of a helper: at most 64 letters, digits, dots, dashes and "
            "underscores are, beginning with a letter or digit."
        )
    site = _site(config, wanted.site)
    access = Access.to(site, config)
    url = without_credentials(_address(wanted.url) or access.url)
    canary = await _canary(config, wanted.canary)
    user, password = _user(config, wanted.name), secrets.token_urlsafe(24)
    key, site_key = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES)
    desk = site.desk(wanted.name)
    rules = rights.rules([f"{config.crawl.name}:{kind}:{desk}" for kind in desks.KINDS])
    line = f"ACL SETUSER {user} reset on >{password} {' '.join(rules)}"

    def change(now: Rulings, epoch: int) -> Rulings:
        if wanted.name in now.helpers:
            raise UsageError(
                f"{wanted.name} is invited already; `gcs helper revoke {wanted.name}` ends that."
            )
        return now.invite(wanted.name, Invited(site.name, key), site_key, epoch)

    with _new_file(wanted.into) as file:
        rulings = await board.rule(change)
        async with _undone_if_it_fails(board, wanted.name):
            if not wanted.by_hand:
                await accounts.tell(access, line)
            invitation = Invitation(
                name=wanted.name,
                crawl=config.crawl.name,
                site=site.name,
                is_open=site.is_open,
                url=url,
                username=user,
                password=password,
                key=key.hex(),
                bundles_key=(key if site.is_open else rulings.sites[site.name]).hex(),
                tls_ca=access.tls_ca.read_text() if access.tls_ca else "",
                canary=canary,
                max_tuple_bytes=config.space.max_tuple_bytes,
            )
            file.write(invitation.text())
            file.flush()
    lines = [f"{wanted.name} may help at {site.name}. Copy {wanted.into} to that machine, and run there:"]
    lines += [f"  gcs helper --invitation {wanted.into.name}"]
    if wanted.by_hand:
        lines += ["First tell the server of that site, or all servers of its cluster:", f"  {line}"]
    if url.startswith("unix:"):
        lines += ["Its address is a socket of this machine; --url names one that others can reach."]
    if canary is None:
        lines += ["It has no canary, so it cannot tell the web from a captive portal; --canary names a page."]
    facts = {"helper": wanted.name, "site": site.name, "file": str(wanted.into), "user": user, "url": url}
    return Answer(facts, lines)


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """A file that was not there before and that only its owner can read; gone again if anything fails."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists; name another file with --into.") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}; name another file with --into."
        ) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@asynccontextmanager
async def _undone_if_it_fails(board: Board, name: str) -> AsyncIterator[None]:
    """End an invitation whose file cannot be written: nobody has its password and its key."""
    try:
        yield
    except BaseException:
        with trio.move_on_after(_UNDO_S, shield=True):
            await board.rule(lambda now, epoch: now.revoke(name, epoch).left(name, epoch))
        raise


async def revoke(board: Board, config: Config, *, name: str, by_hand: bool) -> Answer:
    """End an invitation at once: its answers are refused, and its user is gone.

    What the server has not done yet can be asked for again.
    """
    user = _user(config, name)

    def change(now: Rulings, epoch: int) -> Rulings:
        if name in now.helpers:
            return now.revoke(name, epoch)
        if name in now.leaving:
            return now
        known = ", ".join(sorted({*now.helpers, *now.leaving})) or "nobody"
        raise UsageError(f"{name} is not invited; who is: {known}.")

    at = (await board.rule(change)).leaving[name]
    site = next((each for each in _sites(config) if each.name == at), None)
    facts = {"helper": name, "user": user}
    by_hand_line = f"{name} is not believed any more. Tell the server: ACL DELUSER {user}"
    if site is None and not by_hand:
        raise UsageError(
            f"{name} is not believed any more, but its user is still on the server of {at}, which "
            "helpers.sites does not name here: name it with -s, or use --by-hand."
        )
    if site is not None and not by_hand:
        try:
            await accounts.tell(Access.to(site, config), f"ACL DELUSER {user}")
        except NotDone as error:
            raise NotDone(
                f"{name} is not believed any more, but its user is still on the server: {error} "
                f"`gcs helper revoke {name}` tries again."
            ) from error
    await board.rule(lambda now, epoch: now.left(name, epoch))
    if by_hand:
        return Answer(facts, [by_hand_line])
    return Answer(facts, [f"{name} may not help any more; its connections are closed."])


async def listed(board: Board, config: Config) -> Answer:
    """Who is invited, and who of them is there."""
    now = await board.now()
    rulings = Rulings.from_bytes(now.get("rulings", (0, b""))[1])
    async with desks.opened(config, board.client) as open_desk:
        facts = await helpers(config, rulings, open_desk)
    lines = [
        f"{each['helper']:<20} {each['site']:<16} "
        + (f"{each['pages']:>9,} pages  {each['says']}" if each["present"] else each["says"] or "away")
        for each in facts
    ]
    lines += [
        f"{name:<20} {at:<16} is revoked, but the server may still know its user: `gcs helper revoke {name}`."
        for name, at in sorted(rulings.leaving.items())
    ]
    return Answer(
        {"helpers": facts, "leaving": dict(rulings.leaving)},
        lines or ["Nobody is invited; `gcs helper invite NAME` invites one."],
    )


def _user(config: Config, name: str) -> str:
    """The user of a helper on the server, which several crawls may share."""
    return f"gcs-{config.crawl.name}-helper-{name}"


def _sites(config: Config) -> Sequence[Site]:
    return [Site.of(each) for each in config.helpers.sites]


def _site(config: Config, name: str) -> Site:
    """The site that is meant; raises ConfigError or UsageError."""
    sites = _sites(config)
    if not sites:
        raise ConfigError(
            "helpers.sites names no site; gatherers and this command need the same, such as "
            "-s helpers.sites=office."
        )
    found = [site for site in sites if site.name == name] if name else list(sites)
    if len(found) != 1:
        names = ", ".join(site.name for site in sites)
        raise UsageError(f"--site has to name one of: {names}.")
    return found[0]


def _address(url: str) -> str:
    """An address that helpers can use; raises UsageError."""
    try:
        return str(SETTINGS["redis.url"].kind.read(url))
    except ValueError:
        raise UsageError(f'--url has to be an address such as "redis://host:6379", not {url!r}.') from None


async def _canary(config: Config, url: str) -> Canary | None:
    """The page as it is now; raises UsageError if there is none."""
    if not url:
        return None
    try:
        url = canonical(url)
        if not url.startswith("http"):
            raise Rejected("it is not on the web")
    except Rejected as error:
        raise UsageError(
            f"--canary has to be a page such as http://intranet.example/robots.txt: {error}."
        ) from error
    async with Transport(settings(config.fetch)) as transport:
        outcome = await transport.fetch(*Origin.split(url))
    if isinstance(outcome, Failure):
        raise UsageError(f"The canary {url} cannot be fetched: {outcome.detail}")
    return Canary(url, hashlib.sha256(outcome.body).hexdigest(), outcome.status)
