"""How requests to buckets are signed: AWS Signature Version 4, for GET with an empty body."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

_NOTHING: Final = sha256(b"").hexdigest()
_SIGNED: Final = "host;x-amz-content-sha256;x-amz-date"


class Credentials(NamedTuple):
    """Who asks, and where that is known."""

    key_id: str
    secret: str
    region: str


def target(path: bytes, query: Mapping[str, str | bytes]) -> str:
    """What is asked for: a path and a query in the one spelling that is signed."""
    asked = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
    return quote(path, safe="/") + (f"?{asked}" if asked else "")


def headers(host: str, target: str, credentials: Credentials, at: datetime) -> bytes:
    """The header lines that sign a GET of a target at a host (as its header says it), at a time in UTC."""
    path, _, query = target.partition("?")
    moment = f"{at:%Y%m%dT%H%M%SZ}"
    scope = f"{at:%Y%m%d}/{credentials.region}/s3/aws4_request"
    said = f"host:{host}\nx-amz-content-sha256:{_NOTHING}\nx-amz-date:{moment}\n"
    request = f"GET\n{path}\n{query}\n{said}\n{_SIGNED}\n{_NOTHING}"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for step in scope.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return (
        f"Authorization: AWS4-HMAC-SHA256 Credential={credentials.key_id}/{scope}, "
        f"SignedHeaders={_SIGNED}, Signature={signature}\r\n"
        f"x-amz-content-sha256: {_NOTHING}\r\nx-amz-date: {moment}\r\n"
    ).encode()
