"""What asking for a page comes to: a response, or a failure with its reason. Both are values.

Whatever a server, a name or an address may do ends as one of the two; an exception out of `gcs.fetch` means a
bug or a cancellation, never a bad answer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from gcs.core import sources

DEFAULT_PORTS: Final = {"http": 80, "https": 443, **sources.PORTS}
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
"""Statuses that lead elsewhere, by their Location header."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom to ask: scheme, host (ASCII, lower case, IPv6 without brackets) and port."""

    scheme: str
    host: str
    port: int

    @classmethod
    def split(cls, url: str) -> tuple[Origin, str]:
        """The origin and the target (`/path?query`) of a canonical URL."""
        scheme, _, rest = url.partition("://")
        slash = rest.index("/")
        return _origin(scheme, rest[:slash]), rest[slash:]

    @property
    def netloc(self) -> str:
        """What the Host header says: the host, in brackets if IPv6, and the port unless it is the usual."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if DEFAULT_PORTS.get(self.scheme) == self.port else f"{host}:{self.port}"

    def __str__(self) -> str:
        """As it begins a URL."""
        return f"{self.scheme}://{self.netloc}"


@lru_cache(maxsize=65536)
def _origin(scheme: str, netloc: str) -> Origin:
    """One object per origin in use: sites are few, and dictionaries find an identical key faster."""
    host, colon, port = netloc.rpartition(":")
    if not colon or netloc.endswith("]"):
        host, port = netloc, ""
    return Origin(scheme, host.strip("[]"), int(port) if port else DEFAULT_PORTS[scheme])


class Elsewhere(NamedTuple):
    """What is known of a body that another process has read."""

    raw_bytes: int
    body_bytes: int
    digest: bytes


@dataclass(slots=True)
class Response:
    """An answer: the head as received, the body as sent and as meant, and how long everything took."""

    status: int
    head: bytes
    """Status line and headers exactly as received, with the empty line."""
    headers: dict[str, str]
    """Lower-case names; repeated ones joined with ", "; latin-1."""
    body: bytes
    """Chunking and content coding removed, cut at the limit."""
    raw: bytes
    """As sent, without chunking; the same object as `body` where there is no content coding."""
    truncated: str
    """"" or why the body is not whole, as WARC-Truncated: length, time, disconnect or unspecified."""
    request: bytes
    """The request exactly as sent."""
    address: str
    started: float
    """Unix time at which the request was sent."""
    connect_s: float
    """What it took to find the address and connect; 0 on a connection that was there."""
    first_byte_s: float
    """From sending the request to the first byte of the answer."""
    total_s: float
    """`connect_s`, and from sending the request to the end of the answer; waiting for a place not counted."""
    reused: bool
    elsewhere: Elsewhere | None = None
    """Set if the body was read by a helper: then `body` is empty, and `raw` too unless it was asked for."""

    @property
    def raw_bytes(self) -> int:
        """The length of the body as sent."""
        return len(self.raw) if self.elsewhere is None else self.elsewhere.raw_bytes

    @property
    def body_bytes(self) -> int:
        """The length of the body as meant."""
        return len(self.body) if self.elsewhere is None else self.elsewhere.body_bytes

    def digest(self) -> bytes:
        """SHA-1 of the body as sent."""
        if self.elsewhere is not None:
            return self.elsewhere.digest
        return hashlib.sha1(self.raw, usedforsecurity=False).digest()


class Reason(StrEnum):
    """Why there is no response."""

    DNS = "dns"
    ADDRESS = "address"
    """The address guard refuses where the name or URL leads."""
    PORT = "port"
    """No web server is to be expected there, and other services might take harm."""
    REQUEST = "request"
    """What was to be sent is not fit to be sent: control characters, a user name, framing headers."""
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    SLOW = "slow"
    HEADERS = "headers"
    """The head is too large."""
    PROTOCOL = "protocol"
    """What came is not HTTP."""
    DISCONNECTED = "disconnected"
    RATIO = "ratio"
    """The body is a decompression bomb."""
    CODING = "coding"
    """The body cannot be decoded."""
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Failure:
    """There is no response, and why, in one sentence for people."""

    reason: Reason
    detail: str
    address: str = ""
    started: float = 0.0
    total_s: float = 0.0


Outcome: TypeAlias = Response | Failure
