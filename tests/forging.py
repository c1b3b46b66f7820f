"""What a user of a space can write there past our client."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import redis

from tests import servers
from tuplespace import Limits, Tuple, library, rights, wire
from tuplespace.fields import declare, prepare


@contextmanager
def user(node: servers.Node, *spaces: str) -> Iterator[redis.Redis]:
    """A connection of a user who may use some spaces and nothing else."""
    name = secrets.token_hex(4)
    with node.client() as admin:
        admin.execute_command("ACL", "SETUSER", name, "on", f">{name}", *rights.rules(spaces))
    with redis.Redis(
        host="127.0.0.1", port=node.port, username=name, password=name, protocol=2
    ) as connection:
        yield connection


def write(
    connection: redis.Redis, space: str, index: Mapping[str, Sequence[int]], fields: Tuple, payload: bytes
) -> None:
    """Write bytes under the head of a tuple, as `out` does it."""
    forged = replace(prepare(fields, declare(index), Limits()), payload=payload)
    keys, session = library.keys(space), secrets.token_bytes(8)
    connection.execute_command("FCALL", library.function("open"), len(keys), *keys, session)
    guard = wire.guard(session, 0, 1) + b"F"
    arguments = (guard, b"", *wire.tuples([forged]))
    connection.execute_command("FCALL", library.function("out"), len(keys), *keys, *arguments)
