"""The sources that an operator has chosen, by the configuration or by naming one as a seed."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from gcs import config
from gcs.config import Config
from gcs.core import sources
from gcs.core.sources import DATABASE, FILE, FTP, NNTP, NNTPS, S3, SFTP, Logins, Reach, Schedule, file_url
from gcs.core.urls import Rejected, canonical
from gcs.errors import ConfigError
from gcs.fetch.fetching import Fetching
from gcs.settings import duration_s
from gcs.sources.buckets import Buckets
from gcs.sources.databases import Databases
from gcs.sources.fetching import Source, Sources
from gcs.sources.files import Files
from gcs.sources.ftpservers import FtpServers
from gcs.sources.news import News
from gcs.sources.sftp import SftpServers

_SETTINGS: Final = {FILE: "files", NNTP: "news", NNTPS: "news", FTP: "ftp", SFTP: "sftp", S3: "buckets"}
"""Those that have the sources which can be named by their URLs alone."""


@asynccontextmanager
async def asking(configured: Config, web: Fetching) -> AsyncIterator[Fetching]:
    """What a crawl asks with: the transport itself if there are no sources."""
    settings, fetch = configured.sources, configured.fetch
    context = partial(ssl.create_default_context, cafile=fetch.tls_ca)
    by_scheme: dict[str, Source] = {}
    if settings.files:
        roots = [path_of(each) for each in settings.files]
        by_scheme[FILE] = Files(roots, max_body_bytes=fetch.max_body_bytes)
    if settings.databases:
        by_scheme[DATABASE] = Databases(
            dict(each.split("=", 1) for each in settings.databases),
            rows=settings.rows,
            timeout_s=fetch.timeout_s,
            max_body_bytes=fetch.max_body_bytes,
        )
    logins, connect_timeout_s = logins_of(settings), fetch.connect_timeout_s
    news = News(
        logins,
        context=context,
        max_body_bytes=fetch.max_body_bytes,
        connect_timeout_s=connect_timeout_s,
    )
    if settings.news:
        by_scheme |= {NNTP: news, NNTPS: news}
    servers = FtpServers(
        web.addresses,
        logins,
        context=context,
        max_body_bytes=fetch.max_body_bytes,
        connect_timeout_s=connect_timeout_s,
    )
    if settings.ftp:
        by_scheme[FTP] = servers
    shells = None
    if settings.sftp:
        by_scheme[SFTP] = shells = SftpServers(
            web.addresses,
            logins,
            known_hosts=settings.known_hosts,
            key=settings.ssh_key,
            max_body_bytes=fetch.max_body_bytes,
            timeout_s=fetch.timeout_s,
        )
    if settings.buckets:
        by_scheme[S3] = Buckets(
            web,
            logins,
            endpoint=_server("bucket_endpoint", settings.bucket_endpoint),
            region=settings.bucket_region,
            max_body_bytes=fetch.max_body_bytes,
            now=partial(datetime.now, UTC),
        )
    if not by_scheme:
        yield web
        return
    may_ask = bool(fetch.agent or fetch.allow)
    try:
        yield Sources(web, by_scheme, reach_of(settings), timeout_s=fetch.timeout_s, asks_web=may_ask)
    finally:
        await news.aclose()
        await servers.aclose()
        if shells is not None:
            shells.close()


def logins_of(settings: config.Sources) -> Logins:
    """What to log in with; raises ConfigError for a host that cannot be one."""
    try:
        return Logins(settings.logins)
    except ValueError as error:
        raise ConfigError(f"sources.logins: one of them cannot be used: {error} after its @.") from None


def roots_of(settings: config.Sources) -> list[str]:
    """All that was named, as canonical URLs; raises ConfigError for a root that cannot be one."""
    roots = [file_url(path_of(each), is_directory=False) for each in settings.files]
    roots += [_server("news", each) for each in settings.news]
    roots += [_server("ftp", each) for each in settings.ftp]
    roots += [_server("sftp", each) for each in settings.sftp]
    roots += [_server("buckets", each) for each in settings.buckets]
    return [*roots, *(f"{DATABASE}://{each.partition('=')[0]}/" for each in settings.databases)]


def reach_of(settings: config.Sources) -> Reach:
    """How far links of sources may lead; raises ConfigError for a root that cannot be one."""
    real = [os.path.realpath(path_of(each)) for each in settings.files]
    roots = [*roots_of(settings), *(file_url(path, is_directory=False) for path in real)]
    return Reach(roots, to_web=settings.follow)


def needs(settings: config.Sources) -> list[str]:
    """What a crawl cannot go on without: its sources, and the hosts at which it logs in, as `@host`."""
    return [*roots_of(settings), *(f"@{place}" for place in logins_of(settings).places)]


def lack(settings: config.Sources, needed: Sequence[str]) -> str:
    """What is not there of all that a crawl needs, and what to do about it; "" if everything is."""
    reach, here = reach_of(settings), needs(settings)
    for each in needed:
        if each in here or reach.has(each):
            continue
        if each.startswith("@"):
            return (
                f"logs in at {each[1:]}, and passwords are not kept: give sources.logins again, "
                f"as user:password{each}"
            )
        if each.startswith(f"{DATABASE}:"):
            name = each.removeprefix(f"{DATABASE}://").rstrip("/")
            return (
                f"has the database {name}, whose address is not kept: give sources.databases again, "
                f"as {name}=address"
            )
        return f"has the source {each}, which is not in [sources] any more: name it there beside the others"
    return ""


def _server(setting: str, text: str) -> str:
    """The canonical URL of a server, or of a part of one; raises ConfigError."""
    try:
        return canonical(text)
    except Rejected as error:
        raise ConfigError(f"sources.{setting}: {text} cannot be used: {error}.") from None


def schedule_of(configured: Config) -> Schedule:
    """After how long sources are visited again; raises ConfigError for what cannot be."""
    parts: dict[str, float] = {}
    for text in configured.sources.every:
        part, _, length = text.rpartition("=")
        try:
            url = file_url(path_of(part), is_directory=False) if part.startswith("/") else canonical(part)
            parts[url] = duration_s(length)
        except ValueError as error:  # Rejected is one
            raise ConfigError(f"sources.every: {text} cannot be used: {error}.") from None
    if parts and not configured.revisit.is_on:
        raise ConfigError(
            "sources.every needs a revisit.policy, such as adaptive, for what it does not name."
        )
    return Schedule(parts)


def path_of(root: str) -> bytes:
    """The path of a directory of the configuration; raises ConfigError."""
    if not root.startswith("file:"):
        return b"/" + os.path.normpath(os.fsencode(root)).lstrip(b"/")
    try:
        return b"/" + b"/".join(filter(None, sources.names(canonical(root))))
    except Rejected as error:
        raise ConfigError(f"sources.files: {root} cannot be used: {error}.") from None


def named(configured: Config, seeds: Sequence[str]) -> list[str]:
    """The settings with which the sources may be used that somebody has named as seeds."""
    reach = reach_of(configured.sources)
    added: dict[str, list[str]] = {}
    for seed in seeds:
        try:
            url = canonical(seed)
        except Rejected:
            continue  # it is refused where all seeds are looked at
        setting = _SETTINGS.get(url.partition(":")[0])
        if setting is not None and not reach.has(url):
            added.setdefault(setting, list(getattr(configured.sources, setting))).append(url)
    return [f"sources.{setting}={' '.join(every)}" for setting, every in added.items()]
