"""How long nobody has touched an X11 display: one question to its server, in X's own protocol.

Asked over the socket and not through Xlib: that ends the whole process when the server goes away, and would
need a thread that nobody can interrupt when the server hangs. Only a display of this machine counts; one that
was forwarded from elsewhere is not the desktop that this is about.

On a display inside of Wayland (Xwayland) the answer would know only of some windows, so do not ask there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import trio

SOCKETS: Final = "/tmp/.X11-unix"  # noqa: S108 (where X servers listen by convention)

_DISPLAY: Final = re.compile(r"(?:unix)?:([0-9]{1,5})(?:\.[0-9]+)?")
_COOKIE: Final = b"MIT-MAGIC-COOKIE-1"
_EXTENSION: Final = b"MIT-SCREEN-SAVER"
_LOCAL, _ANYWHERE = 256, 65535
_QUERY_EXTENSION: Final = 98
_QUERY_INFO: Final = 1
_REPLY: Final = 1


class Display:
    """The X11 display that the environment names."""

    name = "X11"

    def __init__(self, number: str, authority: Path, *, sockets: str = SOCKETS) -> None:
        """A display of this machine, and where the word is kept that its server wants to hear."""
        self._number = number
        self._authority = authority
        self._path = f"{sockets}/X{number}"

    @classmethod
    def of(cls, environ: Mapping[str, str], *, sockets: str = SOCKETS) -> Display | None:
        """None if the environment names no display, or one of another machine."""
        match = _DISPLAY.fullmatch(environ.get("DISPLAY", ""))
        if match is None:
            return None
        home = Path(environ.get("HOME", "/"), ".Xauthority")
        return cls(match[1], Path(environ.get("XAUTHORITY") or home), sockets=sockets)

    async def idle_s(self) -> float | None:
        """The seconds since the last key or movement; None if the server does not tell."""
        try:
            async with await trio.open_unix_socket(self._path) as stream:
                return await _ask(stream, _cookie(self._authority, self._number))
        except (OSError, trio.BrokenResourceError, EOFError, struct.error):
            return None


async def _ask(stream: trio.abc.Stream, cookie: bytes) -> float | None:
    name = _COOKIE if cookie else b""
    hello = struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(cookie))
    await stream.send_all(hello + _padded(name) + _padded(cookie))
    status, words = struct.unpack("<B5xH", await _read(stream, 8))
    welcome = await _read(stream, 4 * words)
    if status != 1:
        return None
    vendor, formats = struct.unpack_from("<H3xB", welcome, 16)
    (root,) = struct.unpack_from("<I", welcome, 32 + len(_padded(bytes(vendor))) + 8 * formats)

    length = 2 + len(_padded(_EXTENSION)) // 4
    ask = struct.pack("<BxHHxx", _QUERY_EXTENSION, length, len(_EXTENSION))
    await stream.send_all(ask + _padded(_EXTENSION))
    kind, present, opcode = struct.unpack_from("<B7xBB", await _read(stream, 32))
    if kind != _REPLY or not present:
        return None
    await stream.send_all(struct.pack("<BBHI", opcode, _QUERY_INFO, 2, root))
    kind, idle_ms = struct.unpack_from("<B15xI", await _read(stream, 32))
    return idle_ms / 1000 if kind == _REPLY else None


async def _read(stream: trio.abc.Stream, size: int) -> bytes:
    """So many bytes; raises EOFError if there are no more."""
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _cookie(authority: Path, number: str) -> bytes:
    """The word for this display; "" if there is none, which a server may accept too."""
    try:
        entries = list(_entries(authority.read_bytes()))
    except (OSError, struct.error):
        return b""
    for family, display, name, data in entries:
        if family in (_LOCAL, _ANYWHERE) and name == _COOKIE and display in (b"", number.encode()):
            return data
    return b""


def _entries(data: bytes) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """Family, display, kind of word and word of each entry of an authority file."""
    at = 0
    while at < len(data):
        (family,) = struct.unpack_from(">H", data, at)
        at += 2
        parts = []
        for _ in range(4):
            (size,) = struct.unpack_from(">H", data, at)
            parts.append(data[at + 2 : at + 2 + size])
            at += 2 + size
        yield family, parts[1], parts[2], parts[3]
