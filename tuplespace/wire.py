"""What is said to the server, byte for byte.

A call is one FCALL in the protocol's own form, written here rather than by the client library:
the keys of a space never change, so all but the arguments is made once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tuplespace import library
from tuplespace.backend import Delivery, Fence, Tenure, Terms
from tuplespace.fields import Item, Template, tag_token

GUARD_BYTES: Final = 17


def bulk(argument: bytes) -> bytes:
    """One argument in the protocol's form."""
    return b"$%d\r\n%b\r\n" % (len(argument), argument)


def command(*arguments: bytes) -> bytes:
    """A whole command in the protocol's form."""
    return b"*%d\r\n" % len(arguments) + b"".join([bulk(a) for a in arguments])


class Calls:
    """Writes the calls of one space."""

    def __init__(self, space: str) -> None:
        keys = [k.encode() for k in library.keys(space)]
        self._fixed = 3 + len(keys)
        self._heads = {
            operation: b"".join(
                bulk(part)
                for part in (b"FCALL", library.function(operation).encode(), str(len(keys)).encode(), *keys)
            )
            for operation in library.OPERATIONS
        }
        self.key = keys[-1]
        self.channel = self.key.removesuffix(b"meta")

    def write(self, operation: str, arguments: list[bytes]) -> bytes:
        """A call without a guard: it may be repeated freely."""
        parts = [b"*%d\r\n" % (self._fixed + len(arguments)), self._heads[operation]]
        parts += [b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments]
        return b"".join(parts)

    def write_guarded(self, operation: str, guard: bytes, arguments: list[bytes]) -> tuple[bytes, int]:
        """A call that starts with a guard, and where in it stands the byte that says 'first' or 'again'."""
        start = b"*%d\r\n%b" % (self._fixed + 1 + len(arguments), self._heads[operation])
        parts = [start, b"$17\r\n", guard, b"F\r\n"]
        parts += [b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments]
        return b"".join(parts), len(start) + 5 + len(guard)


def piece(data: bytes) -> bytes:
    """Bytes with their length, one byte, in front."""
    return bytes((len(data),)) + data


def guard(session: bytes, slot: int, sequence: int) -> bytes:
    """Who asks, and which of its requests this is."""
    return session + struct.pack(">H", slot) + sequence.to_bytes(6, "big")


def terms(value: Terms) -> bytes:
    """A lease's terms: ms, deliveries allowed (0: no limit), and a byte for the server's own use."""
    return (
        round(value.lease_s * 1000).to_bytes(6, "big") + struct.pack(">H", value.max_deliveries or 0) + b"\0"
    )


def fence(value: Fence | None) -> bytes:
    """A fence: the token, then the election's name; nothing for none."""
    return b"" if value is None else struct.pack(">Q", value.token) + value.name.encode()


def tuples(items: Iterable[Item]) -> list[bytes]:
    """Three arguments for each tuple: its time in ms, its head, its payload."""
    arguments: list[bytes] = []
    for item in items:
        ttl = b"" if item.ttl_s is None else b"%d" % max(1, round(item.ttl_s * 1000))
        tag, signature = tag_token(item.tag), item.signature.encode()
        if item.positions:
            head = (
                piece(bytes(item.positions))
                + piece(tag)
                + piece(signature)
                + b"".join(map(piece, item.tokens))
            )
        else:
            head = b"\0%c%b%c%b" % (len(tag), tag, len(signature), signature)
        arguments += (ttl, head, item.payload)
    return arguments


def bucket(template: Template) -> tuple[bytes, bytes]:
    """Where to look and for what types: the two arguments of a template."""
    where = bytes((template.mask,)) + piece(tag_token(template.tag)) + b"".join(map(piece, template.tokens))
    return where, piece(template.pattern.encode())


def declaration(template: Template) -> tuple[bytes, bytes]:
    """The tag and its declared fields, which the server compares with what others declare."""
    return piece(tag_token(template.tag)), piece(bytes(template.positions))


def deliveries(pairs: Sequence[bytes | int], template: Template) -> list[Delivery]:
    """Of the pairs of tries and payload that a take gives, those that are what was asked for."""
    read = ((template.read(payload), tries) for tries, payload in zip(pairs[::2], pairs[1::2], strict=True))
    return [Delivery(fields, int(tries)) for fields, tries in read if fields is not None]


def tenure(ms: int, start: int) -> Tenure:
    """For how long the server is there, below zero if there was nothing before, and the name of its start."""
    return Tenure((ms if ms >= 0 else -1 - ms) / 1000, from_nothing=ms < 0, start=start)


def is_sound(operation: str, reply: object) -> bool:
    """Whether an answer has the form that its function gives.

    The server keeps answers in a space for who has to ask again, and whoever may write into the space may
    write there too.
    """
    if operation in _WORDS:
        return _says(reply, _WORDS[operation])
    if operation in _NUMBERS:
        return _is(reply, _NUMBERS[operation] * (int,)) if _NUMBERS[operation] else isinstance(reply, int)
    if not isinstance(reply, list):
        return False
    if operation == "elect":
        return len(reply) == 2 and all(isinstance(each, int | bytes) for each in reply)
    if operation == "tick":
        return all(_says(each, _TICK) for each in reply)
    return _is(reply, (int, int, *(len(reply) - 2) * (bytes,)))


_Types = tuple[type, ...]
# What may follow each word: some values, and then any number of repetitions of others.
_WORDS: Final[Mapping[str, Mapping[bytes, tuple[_Types, _Types]]]] = {
    "take": {
        b"got": ((int, int, int), (int, bytes)),
        b"wait": ((int, bytes), ()),
        b"none": ((int,), ()),
        b"again": ((int,), ()),
    },
    "remove": {b"got": ((int,), (bytes,)), b"none": ((int,), ()), b"again": ((int,), ())},
    "read": {
        b"got": ((), (bytes, bytes)),
        b"wait": ((bytes,), ()),
        b"none": ((), ()),
        b"again": ((bytes,), ()),
    },
    "swap": {b"got": ((bytes,), ()), b"none": ((), ()), b"again": ((), ())},
}
_TICK: Final[Mapping[bytes, tuple[_Types, _Types]]] = {
    b"got": ((), (int, bytes)),
    b"wait": ((), ()),
    b"gone": ((), ()),
}
_NUMBERS: Final[Mapping[str, int]] = {
    "open": 0, "out": 0, "commit": 0, "commit_out": 0, "release": 0, "undo": 0, "close": 0,
    "count": 2, "statistics": 7,
}  # fmt: skip


def _says(reply: object, words: Mapping[bytes, tuple[_Types, _Types]]) -> bool:
    if not isinstance(reply, list) or not reply or reply[0] not in words:
        return False
    first, rest = words[reply[0]]
    values = reply[1:]
    more = len(values) - len(first)
    if more < 0 or (more % len(rest) if rest else more):
        return False
    return _is(values, first + rest * (more // len(rest) if rest else 0))


def _is(values: object, types: _Types) -> bool:
    return isinstance(values, list) and len(values) == len(types) and all(map(isinstance, values, types))
