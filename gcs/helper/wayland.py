"""How long nobody has touched a Wayland desktop, by its compositor.

The protocol `ext-idle-notify-v1` tells when input stops for a while and when it comes back. KWin, Sway and
most others speak it; GNOME's compositor does not, which `gcs.helper.buses` asks in its own way. The
connection stays open between two looks, and a look takes in what has come since; so an idle time counts from
the look that first knew of it, and is rather too short than too long. What keeps the screen on, such as a
film, counts as somebody being there.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from trio.lowlevel import wait_readable

_AFTER_S: Final = 1.0
"""How long input has to stop before the compositor tells."""
_MAX_BYTES: Final = 1 << 20
# The numbers that this client gives to the objects it uses; the first is given by the protocol.
_DISPLAY, _REGISTRY, _SYNC, _SEAT, _NOTIFIER, _NOTIFICATION = range(1, 7)
_ERROR = _GLOBAL = _DONE = _IDLED = 0
_WANTED: Final = {b"wl_seat": _SEAT, b"ext_idle_notifier_v1": _NOTIFIER}


class Compositor:
    """The compositor that the environment names."""

    name = "Wayland"

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        """Nothing is opened before the first question."""
        self._path = path
        self._clock = clock
        self._sock: socket.socket | None = None
        self._received = b""
        self._idle_since: float | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], *, clock: Callable[[], float]) -> Compositor | None:
        """None if the environment names no compositor."""
        name, directory = environ.get("WAYLAND_DISPLAY", ""), environ.get("XDG_RUNTIME_DIR", "")
        if not name or not (directory or name.startswith("/")):
            return None
        return cls(Path(directory, name), clock=clock)

    async def idle_s(self) -> float | None:
        """The seconds that the desktop has been idle, at least; None if the compositor does not tell."""
        try:
            if self._sock is None:
                self._sock = await self._subscribed()
            if self._sock is None:
                return None
            self._take_in(self._sock)
        except (OSError, struct.error, EOFError):
            self.close()
            return None
        return 0.0 if self._idle_since is None else self._clock() - self._idle_since

    def close(self) -> None:
        """Close the connection; the next question makes a new one."""
        if self._sock is not None:
            self._sock.close()
        self._sock = self._idle_since = None
        self._received = b""

    async def _subscribed(self) -> socket.socket | None:
        """A connection on which the compositor tells; None if it cannot."""
        sock = socket.socket(socket.AF_UNIX)
        subscribed = False
        try:
            sock.settimeout(0)
            sock.connect(os.fspath(self._path))
            sock.sendall(_message(_DISPLAY, 1, _REGISTRY) + _message(_DISPLAY, 0, _SYNC))
            names = await self._globals(sock)
            if len(names) == len(_WANTED):
                binds = b"".join(_bind(interface, name) for interface, name in names.items())
                sock.sendall(binds + _message(_NOTIFIER, 1, _NOTIFICATION, int(_AFTER_S * 1000), _SEAT))
                subscribed = True
        finally:
            if not subscribed:
                sock.close()
        return sock if subscribed else None

    async def _globals(self, sock: socket.socket) -> dict[bytes, int]:
        """Those of the wanted things that the compositor has, with the numbers that it gives to them."""
        found: dict[bytes, int] = {}
        self._received = b""
        while True:
            await wait_readable(sock)
            self._receive(sock)
            for sender, opcode, body in self._messages():
                if (sender, opcode) == (_SYNC, _DONE):
                    return found
                if (sender, opcode) == (_REGISTRY, _GLOBAL):
                    name, size = struct.unpack_from("=II", body)
                    interface = body[8 : 8 + size - 1]
                    if interface in _WANTED:
                        found.setdefault(interface, name)

    def _take_in(self, sock: socket.socket) -> None:
        """What has come since the last time, without waiting."""
        self._receive(sock)
        for sender, opcode, _ in self._messages():
            if (sender, opcode) == (_DISPLAY, _ERROR):
                raise EOFError
            if sender == _NOTIFICATION:
                self._idle_since = self._clock() - _AFTER_S if opcode == _IDLED else None

    def _receive(self, sock: socket.socket) -> None:
        """Take in what is there; raises EOFError at the end of it, and for more than anybody would send."""
        while True:
            try:
                more = sock.recv(65536)
            except BlockingIOError:
                return
            self._received += more
            if not more or len(self._received) > _MAX_BYTES:
                raise EOFError

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        """Sender, opcode and arguments of each message that has come whole."""
        while len(self._received) >= 8:
            sender, what = struct.unpack_from("=II", self._received)
            size = what >> 16
            if size < 8:
                raise EOFError
            if len(self._received) < size:
                return
            body, self._received = self._received[8:size], self._received[size:]
            yield sender, what & 0xFFFF, body


def _message(receiver: int, opcode: int, *arguments: int, text: bytes = b"") -> bytes:
    body = struct.pack(f"={len(arguments)}I", *arguments) + text
    return struct.pack("=II", receiver, (8 + len(body)) << 16 | opcode) + body


def _bind(interface: bytes, name: int) -> bytes:
    """Ask for one of the compositor's things, in the first version of its interface."""
    text = interface + bytes(4 - len(interface) % 4)
    size, ending = len(interface) + 1, struct.pack("=II", 1, _WANTED[interface])
    return _message(_REGISTRY, 0, name, size, text=text + ending)
