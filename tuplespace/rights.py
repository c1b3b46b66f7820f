"""What a user of a server needs to be allowed to use some spaces and nothing else, as ACL rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tuplespace.library import FORMAT

CALLED: Final = ("fcall", "ssubscribe", "ping")
"""Commands that a client sends."""
INSIDE: Final = (
    "hdel", "hexists", "hget", "hincrby", "hlen", "hmget", "hset", "hstrlen", "spublish", "time",
    "zadd", "zcard", "zlexcount", "zrangebylex", "zrangebyscore", "zrem", "zscore",
)  # fmt: skip
"""Commands of the functions; a server checks them against the rights of whoever calls."""
LOADING: Final = "function|load"
"""What whoever comes first needs too."""


def rules(spaces: Iterable[str]) -> list[str]:
    """The rules of a user who may use these spaces, and who loads no functions."""
    patterns = [f"ts{FORMAT}:{{{space}}}:*" for space in spaces]
    return [
        *(f"~{each}" for each in patterns),
        *(f"&{each}" for each in patterns),
        *(f"+{each}" for each in (*CALLED, *INSIDE)),
    ]
