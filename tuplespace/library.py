"""The server functions: what is in `scripts/`, put together as one library.

The names carry the version and a digest of the source, so that clients of different versions can
share a server and a server never runs an older text than its caller means. Functions, unlike
cached scripts, survive a restart and reach the replicas.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Final

FORMAT: Final = 1
"""Version of what is stored; part of every key, so that another version's data is never misread."""

KEYS: Final = (
    "tuples", "index", "due", "held", "tries", "takers", "readers", "waiting", "sessions", "replies", "meta",
)  # fmt: skip

# Operation -> its file. Those that free memory, or need none worth mentioning, also run when the
# server is at its limit; `commit` exists twice because only a commit that writes must be refused.
OPERATIONS: Final = {
    "open": "open",
    "out": "out",
    "take": "take",
    "remove": "remove",
    "undo": "undo",
    "read": "read",
    "count": "count",
    "commit": "commit",
    "commit_out": "commit",
    "release": "release",
    "renew": "renew",
    "tick": "tick",
    "swap": "swap",
    "elect": "elect",
    "statistics": "statistics",
    "close": "close",
}
_REFUSED_WHEN_FULL: Final = frozenset({"out", "commit_out", "swap"})


def _text(name: str) -> str:
    return resources.files("tuplespace").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")


def _assemble() -> tuple[str, str]:
    bodies = [_text("space")]
    for operation, file in OPERATIONS.items():
        flags = "" if operation in _REFUSED_WHEN_FULL else "'allow-oom'"
        bodies.append(
            f"redis.register_function{{function_name='PREFIX{operation}', flags={{{flags}}}, "
            f"callback=function(keys, args)\nenter(keys)\n{_text(file)}\nend}}\n"
        )
    body = "\n".join(bodies)
    prefix = f"ts{FORMAT}_{hashlib.sha256(body.encode()).hexdigest()[:8]}_"
    return prefix, f"#!lua name={prefix[:-1]}\n" + body.replace("PREFIX", prefix)


PREFIX, SOURCE = _assemble()


def function(operation: str) -> str:
    """The name under which the server knows an operation."""
    if operation not in OPERATIONS:
        raise KeyError(operation)
    return PREFIX + operation


def keys(space: str) -> tuple[str, ...]:
    """The keys of a space, in the order in which every function takes them."""
    return tuple(f"ts{FORMAT}:{{{space}}}:{key}" for key in KEYS)
