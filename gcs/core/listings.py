"""What FTP servers say of the files that they have: facts (RFC 3659), or lines as `ls -l` writes them.

type=file;size=1234;modify=20240102030405; a name
-rw-r--r--   1 owner    group        1234 Jan  2 03:04 a name
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_LS: Final = re.compile(
    rb"([-dl])[-A-Za-z]{9}\S* +(?:\S+ +){1,4}?\d+ +\S{3,12} +\d{1,2} +(?:\d{1,2}:\d\d|\d{4}) (.+)", re.DOTALL
)
_TIME: Final = re.compile(rb"(\d{14})(?:\.\d+)?")


class Listed(NamedTuple):
    """Something that a server has."""

    name: bytes
    is_directory: bool = False
    size_bytes: int | None = None
    modified: float | None = None
    leads_to: bytes = b""
    """Where a symbolic link leads, as it is written there."""
    unique: bytes = b""
    """The same for whatever is the same; empty if that is not said."""


def from_facts(line: bytes) -> Listed | None:
    """What facts say of something; None for what they have of the directory itself, or is nothing."""
    facts, _, name = line.partition(b" ")
    known = {fact.lower(): value for fact, _, value in (each.partition(b"=") for each in facts.split(b";"))}
    kind, colon, leads_to = known.get(b"type", b"").partition(b":")
    kind, size = kind.lower(), known.get(b"size", b"")
    if kind not in (b"file", b"dir", b"os.unix=slink", b"os.unix=symlink"):
        return None
    return Listed(
        name,
        kind == b"dir",
        int(size) if size.isdigit() and len(size) < 20 else None,
        moment(known.get(b"modify", b"")),
        leads_to if colon else b"",
        known.get(b"unique", b""),
    )


def from_ls(line: bytes) -> Listed | None:
    """What a line of `ls -l` says; None for what is no file, directory or link, or another kind of line."""
    found = _LS.fullmatch(line)
    if found is None:
        return None
    kind, name = found.groups()
    if kind != b"l":
        return Listed(name, kind == b"d")
    name, _, leads_to = name.partition(b" -> ")
    return Listed(name, leads_to=leads_to)


def moment(text: bytes) -> float | None:
    """The Unix time of YYYYMMDDHHMMSS, to the second; None for what is none."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        return datetime.strptime(found[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def is_name(name: bytes) -> bool:
    """Whether something can be the name of an entry, and be asked for in one line."""
    return name not in (b"", b".", b"..") and b"/" not in name and min(name) >= 0x20 and 0x7F not in name
