"""What a helper finds out about the desktop it runs on: over real sockets, and with real processes."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from gcs.core.consent import Idle
from gcs.helper.buses import Gnome, Logind, screens_idle_s
from gcs.helper.surroundings import Desktop, Load, Senses, Source, on_battery
from gcs.helper.wayland import Compositor
from gcs.helper.x11 import Display

COOKIE = bytes(range(16))
ROOT = 0x1D3


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """It begins somewhere."""
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        assert more, "the client went away"
        data += more
    return data


@asynccontextmanager
async def listening(
    path: Path, handler: Callable[[trio.SocketStream], Awaitable[None]]
) -> AsyncIterator[None]:
    """A server on a unix socket."""

    async def handle(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async with stream:
                await handler(stream)

    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(os.fspath(path))
    sock.listen(8)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [trio.SocketListener(sock)])
        yield
        nursery.cancel_scope.cancel()


class XServer:
    """As much of an X server as answers the one question, and is as strict about it as a real one."""

    def __init__(self, *, idle_ms: int = 0, has_extension: bool = True, refuses: bool = False) -> None:
        """What it says."""
        self.idle_ms = idle_ms
        self.has_extension = has_extension
        self.refuses = refuses
        self.cookies: list[bytes] = []

    async def __call__(self, stream: trio.SocketStream) -> None:
        """Serve one client."""
        order, major, minor, name_size, data_size = struct.unpack("<BxHHHHxx", await exactly(stream, 12))
        assert (order, major, minor) == (ord("l"), 11, 0)
        name = (await exactly(stream, name_size + -name_size % 4))[:name_size]
        data = (await exactly(stream, data_size + -data_size % 4))[:data_size]
        assert name in (b"MIT-MAGIC-COOKIE-1", b"")
        self.cookies.append(data)
        if self.refuses:
            why = b"No protocol specified\n\0\0"
            await stream.send_all(struct.pack("<BBHHH", 0, 22, 11, 0, len(why) // 4) + why)
            return
        vendor = b"A vendor\0\0\0\0"
        fixed = struct.pack("<4I2H8B4x", 1, 0x200000, 0x1FFFFF, 256, 9, 65535, 1, 2, 0, 0, 32, 32, 8, 255)
        welcome = fixed + vendor + bytes(16) + struct.pack("<I", ROOT) + bytes(36)
        await stream.send_all(struct.pack("<BxHHH", 1, 11, 0, len(welcome) // 4) + welcome)

        opcode, length, size = struct.unpack("<BxHHxx", await exactly(stream, 8))
        assert (opcode, length, size) == (98, 6, 16)
        assert await exactly(stream, 16) == b"MIT-SCREEN-SAVER"
        await stream.send_all(struct.pack("<BxHIBBBB20x", 1, 1, 0, self.has_extension, 144, 92, 0))
        if not self.has_extension:
            return
        assert struct.unpack("<BBHI", await exactly(stream, 8)) == (144, 1, 2, ROOT)
        # state, window, until the saver, idle, events, kind
        reply = struct.pack("<BBHIIIIIB7x", 1, 0, 2, 0, 0x55, 60_000, self.idle_ms, 0, 1)
        await stream.send_all(reply[:10])
        await stream.send_all(reply[10:])


def authority(*entries: tuple[int, bytes, bytes, bytes, bytes]) -> bytes:
    """A file of X's words: family, address, display, name and data of each."""
    found = b""
    for family, *parts in entries:
        found += struct.pack(">H", family)
        found += b"".join(struct.pack(">H", len(part)) + part for part in parts)
    return found


async def test_x11(tmp_path: Path) -> None:
    """The idle time of an X11 display is what its server says, to whoever knows the word."""
    server = XServer(idle_ms=754_321)
    (tmp_path / "words").write_bytes(
        authority(
            (0, bytes(4), b"7", b"MIT-MAGIC-COOKIE-1", b"of another machine"),
            (256, b"here", b"6", b"MIT-MAGIC-COOKIE-1", b"of another display"),
            (256, b"here", b"7", b"XDM-AUTHORIZATION-1", b"of another kind"),
            (256, b"here", b"7", b"MIT-MAGIC-COOKIE-1", COOKIE),
        )
    )
    environ = {"DISPLAY": ":7.0", "XAUTHORITY": str(tmp_path / "words")}
    display = Display.of(environ, sockets=str(tmp_path))
    assert display is not None
    async with listening(tmp_path / "X7", server):
        assert await display.idle_s() == 754.321
        server.idle_ms = 3
        assert await display.idle_s() == 0.003
    assert server.cookies == [COOKIE, COOKIE]


async def test_x11_that_does_not_tell(tmp_path: Path) -> None:
    """A server that refuses, lacks the extension, goes away or is not there leaves it unknown."""
    display = Display.of({"DISPLAY": "unix:7", "HOME": str(tmp_path)}, sockets=str(tmp_path))
    assert display is not None
    (tmp_path / ".Xauthority").write_bytes(b"\0\0\0")
    assert await display.idle_s() is None

    async def leaves(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)

    for handler in (XServer(refuses=True), XServer(has_extension=False), leaves):
        async with listening(tmp_path / "X7", handler):
            assert await display.idle_s() is None
        (tmp_path / "X7").unlink()


def test_displays_that_do_not_count() -> None:
    """No display, and one that was forwarded from elsewhere, are not this desktop's."""
    for display in ("", "localhost:10.0", "there:0", "nonsense"):
        assert Display.of({"DISPLAY": display}) is None
    assert Display.of({}) is None


class FakeCompositor:
    """As much of a compositor as tells when input stops and comes back."""

    def __init__(self, *globals_: bytes) -> None:
        """It has these things."""
        self.globals = globals_
        self.subscribed = trio.Event()
        self.stream: trio.SocketStream | None = None
        self.notification = 0

    async def __call__(self, stream: trio.SocketStream) -> None:
        """Serve one client."""
        self.stream = stream
        bound: dict[int, bytes] = {}
        while head := await stream.receive_some(8):
            receiver, what = struct.unpack("=II", head)
            body = await exactly(stream, (what >> 16) - 8)
            match bound.get(receiver, b""), receiver, what & 0xFFFF:
                case b"", 1, 1:
                    bound[struct.unpack("=I", body)[0]] = b"registry"
                case b"", 1, 0:
                    registry = next(iter(bound))
                    for name, interface in enumerate(self.globals, start=40):
                        size = len(interface) + 1
                        padded = interface + bytes(4 - len(interface) % 4)
                        await self.say(
                            registry, 0, struct.pack("=II", name, size) + padded + struct.pack("=I", 9)
                        )
                    await self.say(struct.unpack("=I", body)[0], 0, struct.pack("=I", 0))
                case b"registry", _, 0:
                    name, size = struct.unpack_from("=II", body)
                    interface = body[8 : 8 + size - 1]
                    assert self.globals[name - 40] == interface
                    version, number = struct.unpack("=II", body[8 + size + -size % 4 :])
                    assert version == 1
                    bound[number] = interface
                case b"ext_idle_notifier_v1", _, 1:
                    self.notification, timeout_ms, seat = struct.unpack("=III", body)
                    assert (timeout_ms, bound[seat]) == (1000, b"wl_seat")
                    self.subscribed.set()
                case unexpected:
                    raise AssertionError(unexpected)

    async def say(self, sender: int, opcode: int, body: bytes = b"") -> None:
        """Send one message, in two pieces."""
        assert self.stream is not None
        message = struct.pack("=II", sender, (8 + len(body)) << 16 | opcode) + body
        await self.stream.send_all(message[:6])
        await self.stream.send_all(message[6:])


IDLE_NOTIFIER = (b"wl_compositor", b"wl_seat", b"wl_seat", b"ext_idle_notifier_v1")


async def test_wayland(tmp_path: Path) -> None:
    """Under Wayland a desktop is idle from when the compositor says so until it says otherwise."""
    clock, fake = Clock(), FakeCompositor(*IDLE_NOTIFIER)
    compositor = Compositor.of({"WAYLAND_DISPLAY": "w", "XDG_RUNTIME_DIR": str(tmp_path)}, clock=clock)
    assert compositor is not None
    async with listening(tmp_path / "w", fake):
        assert await compositor.idle_s() == 0.0
        await fake.subscribed.wait()
        await fake.say(fake.notification, 0)
        assert await compositor.idle_s() == 1.0
        clock.now += 600
        assert await compositor.idle_s() == 601.0
        await fake.say(fake.notification, 1)
        assert await compositor.idle_s() == 0.0
        await fake.say(fake.notification, 0)
        await fake.say(fake.notification, 1)
        await fake.say(fake.notification, 0)
        assert await compositor.idle_s() == 1.0
        await fake.say(1, 0, struct.pack("=III", 1, 0, 0))
        assert await compositor.idle_s() is None
        assert await compositor.idle_s() == 0.0
    assert await compositor.idle_s() is None
    assert await compositor.idle_s() is None


async def test_wayland_that_does_not_tell(tmp_path: Path) -> None:
    """A compositor without the protocol, or that talks nonsense, leaves it unknown."""
    compositor = Compositor.of({"WAYLAND_DISPLAY": str(tmp_path / "w")}, clock=Clock())
    assert compositor is not None

    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.send_all(bytes(64))

    for handler in (FakeCompositor(b"wl_seat"), nonsense):
        async with listening(tmp_path / "w", handler):
            assert await compositor.idle_s() is None
        (tmp_path / "w").unlink()
    assert Compositor.of({"WAYLAND_DISPLAY": "w"}, clock=Clock()) is None
    assert Compositor.of({"XDG_RUNTIME_DIR": "/run"}, clock=Clock()) is None


def session(**changed: str) -> str:
    """What `loginctl show-session` says of one."""
    usual = {
        "Remote": "no",
        "Type": "wayland",
        "Class": "user",
        "Active": "yes",
        "IdleHint": "yes",
        "IdleSinceHintMonotonic": "400000000",
    }
    return "".join(f"{name}={value}\n" for name, value in {**usual, **changed}.items())


@pytest.mark.parametrize(
    ("shown", "idle_s"),
    [
        (session(), 600.0),
        (session(IdleHint="no"), 0.0),
        (session(IdleHint="no", IdleSinceHintMonotonic="0"), None),
        (session(IdleSinceHintMonotonic="2000000000"), 0.0),
        (session(Type="tty"), None),
        (session(Class="greeter"), None),
        (session(Active="no"), None),
        (session(Remote="yes"), None),
        (session() + "\n" + session(Type="x11", IdleSinceHintMonotonic="900000000"), 100.0),
        (session() + "\n" + session(IdleHint="no", IdleSinceHintMonotonic="0"), None),
        (session() + "\n" + session(Active="no", IdleHint="no"), 600.0),
        ("", None),
        ("nonsense\n\n\nIdleHint=\n", None),
    ],
)
def test_screens(shown: str, idle_s: float | None) -> None:
    """The screens in front of people count, the one used last decides, and one that never told does not."""
    assert screens_idle_s(shown, 1000.0) == idle_s


def command(path: Path, body: str) -> None:
    """A command of this name that does this."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


async def test_logind(tmp_path: Path) -> None:
    """logind is asked with loginctl, for all sessions at once."""
    (tmp_path / "shown").write_text(session() + "\n" + session(Type="tty", Remote="yes"))
    command(
        tmp_path / "loginctl",
        f'case "$1 $*" in\n'
        f'  list-sessions*) echo "  2 1000 me seat0 tty2"; echo " c7 0 root - pts/1";;\n'
        f'  "show-session "*" -- 2 c7") cat {tmp_path}/shown;;\n'
        f"  *) exit 1;;\n"
        f"esac",
    )
    clock = Clock()
    logind = Logind.of({"PATH": f"{tmp_path}:{os.defpath}"}, clock=clock)
    assert logind is not None
    assert await logind.idle_s() == 600.0
    command(tmp_path / "loginctl", "exit 1")
    assert await logind.idle_s() is None
    command(tmp_path / "loginctl", "exit 0")
    assert await logind.idle_s() is None
    (tmp_path / "loginctl").unlink()
    assert await logind.idle_s() is None
    assert Logind.of({"PATH": str(tmp_path)}, clock=clock) is None


async def test_gnome(tmp_path: Path) -> None:
    """GNOME is asked with busctl, and where there is none, or an older command, it is unknown."""
    command(tmp_path / "busctl", """echo '{"type":"t","data":[754321]}'""")
    gnome = Gnome.of({"PATH": f"{tmp_path}:{os.defpath}"})
    assert gnome is not None
    assert await gnome.idle_s() == 754.321
    for answer in ("exit 1", "echo t 754321", "echo '{}'", """echo '{"data":[]}'"""):
        command(tmp_path / "busctl", answer)
        assert await gnome.idle_s() is None
    assert Gnome.of({"PATH": str(tmp_path / "nowhere")}) is None


async def test_load() -> None:
    """Where nobody tells, a machine is idle for as long as others than the helper have kept it quiet."""
    clock, loads, used_s = Clock(), [4.0, 1.0, 2.6, 3.0, 0.1, 0.1], [0.0]
    load = Load(lambda: loads.pop(0), cores=4, clock=clock, cpu_s=lambda: used_s[0])
    assert await load.idle_s() == 0.0
    clock.now += 30
    assert await load.idle_s() == 0.0
    clock.now += 60
    used_s[0] += 90
    assert await load.idle_s() == 60.0
    clock.now += 60
    assert await load.idle_s() == 0.0
    clock.now += 60
    assert await load.idle_s() == 0.0
    clock.now += 60
    assert await load.idle_s() == 60.0


class Scripted:
    """A source that says what a test wants."""

    def __init__(self, name: str, says: float | None, *, after_s: float = 0.0) -> None:
        """It says so after a while."""
        self.name = name
        self._says = says
        self._after_s = after_s

    async def idle_s(self) -> float | None:
        """What it says."""
        await trio.sleep(self._after_s)
        return self._says


@pytest.mark.virtual_time
async def test_the_first_who_tells(tmp_path: Path) -> None:
    """The first source that answers in time counts, and what is said names it."""
    slow, silent, one = Scripted("slow", 1.0, after_s=60), Scripted("silent", None), Scripted("one", 7.0)

    def all_of_them(*these: Scripted) -> Callable[[], Awaitable[Sequence[Source]]]:
        async def sources() -> Sequence[Source]:
            await trio.lowlevel.checkpoint()
            return these

        return sources

    asked = all_of_them(slow, silent, one, Scripted("other", 9.0))
    looked = await Senses(asked, power=tmp_path / "none").look()
    assert looked.idle == Idle(7.0, "one")
    assert looked.on_battery is None
    assert abs(looked.local_time - datetime.now(UTC)) < timedelta(minutes=1)
    assert looked.local_time.utcoffset() == datetime.now(UTC).astimezone().utcoffset()
    assert (await Senses(all_of_them(silent), power=tmp_path).look()).idle is None


async def test_whom_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X11 is asked on X11 only, the compositor and GNOME on Wayland only, and the load last."""
    for name in ("loginctl", "busctl"):
        command(tmp_path / name, "exit 1")
    path = {"PATH": str(tmp_path)}
    wayland = {**path, "WAYLAND_DISPLAY": "w", "XDG_RUNTIME_DIR": "/run", "DISPLAY": ":0"}

    async def asked(environ: dict[str, str]) -> list[str]:
        return [source.name for source in await Desktop(environ).sources()]

    assert await asked({**path, "DISPLAY": ":0"}) == ["X11", "logind", "load"]
    assert await asked(wayland) == ["Wayland", "GNOME", "logind", "load"]
    on_wayland = {**path, "XDG_SESSION_TYPE": "wayland", "DISPLAY": ":0"}
    assert await asked(on_wayland) == ["GNOME", "logind", "load"]
    assert await asked({"PATH": str(tmp_path / "nowhere")}) == ["load"]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert await asked(wayland) == ["load"]
    monkeypatch.delattr(os, "getloadavg")
    assert await asked(wayland) == []


async def test_a_desktop_that_starts_later(tmp_path: Path) -> None:
    """A service that was there before the display finds it when the session has told its service manager."""
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    said = tmp_path / "said"
    command(tmp_path / "systemctl", f'[ "$*" = "--user show-environment" ] && exec /bin/cat {said}')
    said.write_text("HOME=/home/ann\nPATH=/elsewhere\n")
    desktop = Desktop({"PATH": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})

    async def names() -> list[str]:
        return [source.name for source in await desktop.sources()]

    assert await names() == ["load"]
    said.write_text("HOME=/home/ann\nDISPLAY=:7\nXAUTHORITY=/run/user/7/words\n")
    assert await names() == ["X11", "load"]
    said.write_text(f"WAYLAND_DISPLAY={tmp_path}/wayland-7\nDISPLAY=:7\n")
    assert await names() == ["Wayland", "load"]
    before = await desktop.sources()
    assert all(one is other for one, other in zip(before, await desktop.sources(), strict=True))
    said.unlink()
    assert await names() == ["load"]


async def test_this_machine() -> None:
    """Looking around on the machine at hand finds something, and takes no longer than it may."""
    with trio.fail_after(60):
        looked = await Senses(Desktop().sources).look()
    assert looked.idle is not None
    assert looked.idle.seconds >= 0


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ([], False),
        ([{"type": "Mains", "online": "1"}], False),
        ([{"type": "Mains", "online": "0"}, {"type": "Battery", "status": "Discharging"}], True),
        ([{"type": "Mains", "online": "1"}, {"type": "Battery", "status": "Discharging"}], False),
        ([{"type": "Mains", "online": "0"}, {"type": "Battery", "status": "Unknown"}], True),
        ([{"type": "Battery", "status": "Charging"}], False),
        ([{"type": "Battery", "status": "Not charging"}, {"type": "Battery", "status": "Discharging"}], True),
        ([{"type": "Battery", "scope": "Device", "status": "Discharging"}], False),
        ([{"type": "Battery", "scope": "System", "status": "Discharging"}], True),
        ([{"type": "USB", "online": "1"}, {"type": "Battery", "status": "Discharging"}], True),
        ([{"type": "UPS", "status": "Discharging"}], True),
        ([{"type": "Battery"}], False),
    ],
)
def test_battery(tmp_path: Path, supplies: list[dict[str, str]], expected: bool) -> None:
    """Mains that deliver decide, then a battery of the machine in use; that of a mouse does not count."""
    for number, supply in enumerate(supplies):
        (tmp_path / f"supply{number}").mkdir()
        for name, word in supply.items():
            (tmp_path / f"supply{number}" / name).write_text(f"{word}\n")
    assert on_battery(tmp_path) is expected


def test_battery_unknown(tmp_path: Path) -> None:
    """Where the system does not tell, it is unknown."""
    assert on_battery(tmp_path / "nothing") is None
