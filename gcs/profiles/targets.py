"""Where matches are delivered to: web hooks, feeds and files of lines on the machine that delivers, mail.

A target says with None that it has the match, or with a sentence why not. A match may be given to it twice,
if whoever delivers is killed before that is noted: files have each id once, and others are told the id.
"""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx
import trio

from gcs import config
from gcs.fetch.client import HttpxTransport
from gcs.fetch.transport import Transport
from gcs.profiles.records import Match, Profile

Deliver = Callable[[Profile, Match], Awaitable[str | None]]
HEADER: Final = "Gcs-Delivery"
"""The header with the id of a delivery."""
_ATOM: Final = "http://www.w3.org/2005/Atom"
_MOST_ENTRIES: Final = 500
"""Entries of a feed; older ones leave it."""
_LOOKED_THROUGH: Final = 1 << 20
"""How much of the end of a file of lines is looked through for an id."""
_TIMEOUT_S: Final = 30.0


def refusal(kind: str, target: str) -> str:
    """What is wrong with a target, in a sentence; "" if nothing is."""
    if kind == "webhook":
        if not _is_web(target):
            return f"{target} is no URL that a web hook could have, such as https://example.org/hook."
    elif kind == "email":
        name, at, host = target.rpartition("@")
        if not (name and at and host) or not target.isprintable() or " " in target:
            return f"{target} is no address for mail."
    elif not Path(target).is_absolute() or not Path(target).name or "\0" in target:
        return f"{target} has to be a path from the root on, on the machines of the gatherers."
    return ""


def _is_web(target: str) -> bool:
    try:
        url = httpx.URL(target)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host) and not url.userinfo


class Targets:
    """All kinds of targets."""

    def __init__(self, settings: config.Profiles, transport: Transport) -> None:
        """Web hooks are asked through a transport."""
        self._settings = settings
        self._client = httpx.AsyncClient(transport=HttpxTransport(transport), timeout=_TIMEOUT_S)
        self._kinds: Mapping[str, Deliver] = {
            "webhook": self._webhook,
            "jsonl": partial(_in_thread, append_line),
            "atom": partial(_in_thread, add_to_feed),
            "email": self._email,
        }

    async def deliver(self, profile: Profile, match: Match) -> str | None:
        """Deliver a match; None if it was, or why not."""
        return await self._kinds[profile.kind](profile, match)

    async def _webhook(self, profile: Profile, match: Match) -> str | None:
        payload = json.dumps(match.payload(profile), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", HEADER: match.id(profile.name)}
        try:
            answer = await self._client.post(profile.target, content=payload, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}"
        return None if answer.is_success else f"it answered {answer.status_code}"

    async def _email(self, profile: Profile, match: Match) -> str | None:
        if not self._settings.smtp:
            return "profiles.smtp names no server for mail"
        message = letter(self._settings.sender, profile, match)
        work = partial(_send, self._settings.smtp, message)
        try:
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except (OSError, smtplib.SMTPException, ValueError) as error:  # a name or a port that cannot be
            return f"{type(error).__name__}: {error}"
        return None


async def _in_thread(write: Callable[[Profile, Match], None], profile: Profile, match: Match) -> str | None:
    try:
        await trio.to_thread.run_sync(write, profile, match)
    except (OSError, ET.ParseError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def append_line(profile: Profile, match: Match) -> None:
    """Append a match to a file of JSON lines, unless it is there; raises OSError."""
    path = Path(profile.target)
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(match.payload(profile), ensure_ascii=False).encode() + b"\n"
    with path.open("a+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _LOOKED_THROUGH))
        lines = stream.read().split(b"\n")
        if any(_has_id(each, match.id(profile.name)) for each in lines):
            return
        if lines[-1]:
            line = b"\n" + line  # somebody was killed within a line
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def _has_id(line: bytes, wanted: str) -> bool:
    if wanted.encode() not in line:
        return False
    with suppress(ValueError):
        return bool(json.loads(line).get("id") == wanted)
    return False


def add_to_feed(profile: Profile, match: Match) -> None:
    """Put a match at the beginning of an Atom feed, unless it is there; raises OSError or ParseError."""
    path = Path(profile.target)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.register_namespace("", _ATOM)
    identity = f"urn:gcs:{match.id(profile.name)}"
    entries: list[ET.Element] = []
    if path.exists():
        entries = ET.parse(path).getroot().findall(f"{{{_ATOM}}}entry")  # noqa: S314 - our own file
    if any(each.findtext(f"{{{_ATOM}}}id") == identity for each in entries):
        return
    feed = ET.Element(f"{{{_ATOM}}}feed")
    _sub(feed, "title", f"{profile.name}: {profile.query}")
    _sub(feed, "id", f"urn:gcs:profile:{profile.name}")
    _sub(feed, "updated", match.fetched_at)
    _sub(_sub(feed, "author", ""), "name", "GCS")
    entry = _sub(feed, "entry", "")
    _sub(entry, "title", match.title or match.url)
    _sub(entry, "id", identity)
    _sub(entry, "updated", match.fetched_at)
    _sub(entry, "link", "").set("href", match.url)
    _sub(entry, "summary", match.text)
    feed.extend(entries[: _MOST_ENTRIES - 1])
    aside = path.with_name(f".{path.name}.new")
    with aside.open("wb") as stream:
        ET.ElementTree(feed).write(stream, encoding="utf-8", xml_declaration=True)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)


def _sub(parent: ET.Element, name: str, text: str) -> ET.Element:
    element = ET.SubElement(parent, f"{{{_ATOM}}}{name}")
    # XML has no way to write control characters.
    element.text = "".join(each if each.isprintable() or each in "\n\t" else " " for each in text) or None
    return element


def letter(sender: str, profile: Profile, match: Match) -> EmailMessage:
    """A match as a mail."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = profile.target
    title = " ".join((match.title or match.url).split())
    message["Subject"] = f"[{profile.name}] {title}"[:200]
    message["Message-ID"] = f"<{match.id(profile.name)}@{sender.rpartition('@')[2]}>"
    message[HEADER] = match.id(profile.name)
    message.set_content(
        f"{match.title}\n{match.url}\n{match.fetched_at}\n\n{match.text}\n\n{profile.query}\n"
    )
    return message


def _send(server: str, message: EmailMessage) -> None:
    parts = urlsplit(server)
    host = parts.hostname or "localhost"
    if parts.scheme == "smtps":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            host, parts.port or 465, timeout=_TIMEOUT_S, context=ssl.create_default_context()
        )
    else:
        connection = smtplib.SMTP(host, parts.port or 25, timeout=_TIMEOUT_S)
    with connection:
        if parts.scheme == "smtp" and connection.has_extn("starttls"):
            connection.starttls(context=ssl.create_default_context())
        if parts.username:
            connection.login(unquote(parts.username), unquote(parts.password or ""))
        connection.send_message(message)
