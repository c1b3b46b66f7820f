"""A Linda-style tuple space: out, in, rd and take, on one process's memory or on Redis.

    async with tuplespace.connect("redis://localhost") as client:
        space = client.space("crawl", index={"url": (1,)})
        await space.out("url", 3, "http://example.org/")
        async with space.take("url", 3, str, lease=30) as taken:
            ...  # leaving the block commits; an error, or this process's death, gives it back

`take` is a lease: what a dying worker held is found again by the next one. See docs/tuplespace.md
for what is promised and what is not.
"""

from tuplespace.backend import Event, Fence, Statistics, Tenure, Terms
from tuplespace.client import Client, connect
from tuplespace.election import Leadership, election
from tuplespace.errors import (
    AccessDenied,
    AddressError,
    ClientClosed,
    EmbeddedError,
    Fenced,
    IndexMismatch,
    LeadershipLost,
    LeaseLost,
    OutcomeUnknown,
    ServerError,
    SpaceFull,
    TemplateError,
    TupleError,
    TupleSpaceError,
    Unavailable,
    Unreadable,
)
from tuplespace.fields import ANY, DEAD_LETTER, Field, Limits, Tuple
from tuplespace.space import Space, Spaces, Taken, Watch

__all__ = [
    "ANY",
    "DEAD_LETTER",
    "AccessDenied",
    "AddressError",
    "Client",
    "ClientClosed",
    "EmbeddedError",
    "Event",
    "Fence",
    "Fenced",
    "Field",
    "IndexMismatch",
    "Leadership",
    "LeadershipLost",
    "LeaseLost",
    "Limits",
    "OutcomeUnknown",
    "ServerError",
    "Space",
    "SpaceFull",
    "Spaces",
    "Statistics",
    "Taken",
    "TemplateError",
    "Tenure",
    "Terms",
    "Tuple",
    "TupleError",
    "TupleSpaceError",
    "Unavailable",
    "Unreadable",
    "Watch",
    "connect",
    "election",
]
