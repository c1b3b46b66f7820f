"""`gcs helper invite`, `gcs helper revoke` and `gcs helper list`: who may help."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.rulings import Invited, Rulings
from gcs.errors import ConfigError, ExitCode, GcsError, UsageError
from gcs.fetch.outcome import Failure, Origin
from gcs.fetch.transport import Transport
from gcs.helper import desks
from gcs.helper.invitation import Invitation
from gcs.helper.papers import KEY_BYTES
from gcs.helper.portal import Canary, settings
from gcs.helper.sites import Site
from gcs.operate.asking import Answer
from gcs.operate.helping import helpers
from tuplespace import rights

_PATIENCE_S: Final = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch


class NotInvited(GcsError):
    """The server does not let us make or remove a user."""

    exit_code = ExitCode.REDIS


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
    """Let a machine help: a user on the site's server, a key, and a file that has both."""
    if not _NAME(wanted.name):
        raise UsageError(
            f"{wanted.name!r} cannot be the name of a helper: at most 64 letters, digits, dots, dashes and "
            "underscores are, beginning with a letter or digit."
        )
    site = _site(config, wanted.site)
    if wanted.into.exists():
        raise UsageError(f"{wanted.into} exists; name another file with --into.")
    canary = await _canary(config, wanted.canary)
    url = without_credentials(wanted.url or site.url or config.redis.url)
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

    rulings = await board.rule(change)
    if not wanted.by_hand:
        try:
            await trio.to_thread.run_sync(_on_server, config, site, line)
        except GcsError:
            await board.rule(lambda now, epoch: now.revoke(wanted.name, epoch))
            raise
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
        tls_ca=config.redis.tls_ca.read_text() if config.redis.tls_ca and not site.url else "",
        canary=canary,
        max_tuple_bytes=config.space.max_tuple_bytes,
    )
    invitation.write(wanted.into)
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


async def revoke(board: Board, config: Config, *, name: str, by_hand: bool) -> Answer:
    """End an invitation at once: its answers are refused, and its user is gone."""
    user = _user(config, name)
    gone: list[Invited] = []

    def change(now: Rulings, epoch: int) -> Rulings:
        if name not in now.helpers:
            known = ", ".join(sorted(now.helpers)) or "nobody"
            raise UsageError(f"{name} is not invited; who is: {known}.")
        gone.append(now.helpers[name])
        return now.revoke(name, epoch)

    await board.rule(change)
    site = next((each for each in _sites(config) if each.name == gone[0].site), None)
    facts = {"helper": name, "user": user}
    if by_hand or site is None:
        return Answer(facts, [f"{name} is not believed any more. Tell the server: ACL DELUSER {user}"])
    await trio.to_thread.run_sync(_on_server, config, site, f"ACL DELUSER {user}")
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
    return Answer({"helpers": facts}, lines or ["Nobody is invited; `gcs helper invite NAME` invites one."])


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


def without_credentials(url: str) -> str:
    """An address without the user and the password in it: a helper has its own."""
    scheme, separator, rest = url.partition("://")
    place, mark, query = rest.partition("?")
    before, slash, path = place.partition("/")
    kept = [each for each in query.split("&") if each.partition("=")[0] not in ("username", "password")]
    query = "&".join(each for each in kept if each)
    return f"{scheme}{separator}{before.rpartition('@')[2]}{slash}{path}{mark if query else ''}{query}"


async def _canary(config: Config, url: str) -> Canary | None:
    """The page as it is now; raises UsageError if there is none."""
    if not url:
        return None
    async with Transport(settings(config.fetch)) as transport:
        outcome = await transport.fetch(*Origin.split(url))
    if isinstance(outcome, Failure):
        raise UsageError(f"The canary {url} cannot be fetched: {outcome.detail}")
    return Canary(url, hashlib.sha256(outcome.body).hexdigest(), outcome.status)


def _on_server(config: Config, site: Site, line: str) -> None:
    """Send a command to the server of a site, and have it remembered where that is possible."""
    url = site.url or config.redis.url
    if "+" in url.partition("://")[0]:
        raise UsageError(
            "Users of a cluster or a Sentinel group have to be made on every server: use --by-hand."
        )
    options: dict[str, Any] = {"socket_timeout": _PATIENCE_S, "socket_connect_timeout": _PATIENCE_S}
    if not site.url:
        given = config.redis
        named = {"username": given.username or None, "password": given.password or None}
        if url.startswith("rediss"):
            files = {
                "ssl_ca_certs": given.tls_ca,
                "ssl_certfile": given.tls_cert,
                "ssl_keyfile": given.tls_key,
            }
            named |= {name: str(path) for name, path in files.items() if path}
        options |= {name: value for name, value in named.items() if value}
    try:
        with redis.Redis.from_url(url, **options) as server:
            server.execute_command(*line.split(" "))
            # Without a file for users its configuration has to name them, or they are gone after a restart.
            with suppress(redis.ResponseError):
                server.execute_command("ACL", "SAVE")
    except redis.RedisError as error:
        raise NotInvited(
            f"The server does not do it ({error}); its user needs the right +acl, or use --by-hand."
        ) from error
