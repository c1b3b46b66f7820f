"""A small server of buckets on loopback: what S3 says of reading them, with signatures that are verified."""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, "
    r"SignedHeaders=([^,]+), Signature=(\w{64})"
)


@dataclass
class Bucket:
    """What it has, and what it was asked."""

    objects: dict[str, bytes] = field(default_factory=dict)
    key: tuple[str, str] | None = None
    """The id and the secret without which nothing is given."""
    region: str = "us-east-1"
    most: int = 1000
    """Names of one answer."""
    encodes: bool = True
    """Whether names are encoded where that is asked for."""
    port: int = 0
    asked: list[str] = field(default_factory=list)


@contextmanager
def serve(name: str, bucket: Bucket) -> Iterator[Bucket]:
    """Serve one bucket on loopback, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        """One connection."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer."""
            bucket.asked.append(self.path)
            parts = urlsplit(self.path)
            path = unquote(parts.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            if bucket.key is not None and (status := self._unsigned(bucket.key)):
                self._say(status)
            elif path == f"/{name}/" and query.get("list-type") == "2":
                self._say(200, _listing(bucket, query).encode(), {"Content-Type": "application/xml"})
            elif (found := bucket.objects.get(path.removeprefix(f"/{name}/"))) is None:
                self._say(404)
            else:
                etag = f'"{hashlib.md5(found, usedforsecurity=False).hexdigest()}"'
                said = {
                    "ETag": etag,
                    "Last-Modified": formatdate(1e9, usegmt=True),
                    "Content-Type": "text/plain",
                }
                if self.headers.get("If-None-Match") == etag:
                    self._say(304, b"", said)
                else:
                    self._say(200, found, said)

        def _unsigned(self, key: tuple[str, str]) -> int:
            """The status for who has not signed as the documentation of the service says; 0 for who has."""
            given = AUTHORIZATION.fullmatch(self.headers.get("Authorization", ""))
            if given is None or given[1] != key[0]:
                return 403
            _, day, region, names, signature = given.groups()
            if region != bucket.region:
                return 400
            path, _, query = self.path.partition("?")
            pairs = sorted(parse_qsl(query, keep_blank_values=True))
            request = [
                "GET",
                quote(unquote(path), safe="/-_.~"),
                "&".join(f"{quote(a, safe='-_.~')}={quote(b, safe='-_.~')}" for a, b in pairs),
                *(f"{each}:{self.headers[each].strip()}" for each in names.split(";")),
                "",
                names,
                self.headers["x-amz-content-sha256"],
            ]
            scope = f"{day}/{region}/s3/aws4_request"
            digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
            text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, digest])
            made = ("AWS4" + key[1]).encode()
            for step in [*scope.split("/"), text]:
                made = hmac.new(made, step.encode(), hashlib.sha256).digest()
            is_right = hmac.compare_digest(made.hex(), signature) and "host" in names.split(";")
            return 0 if is_right and self.headers["x-amz-date"].startswith(day) else 403

        def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for each, value in (headers or {}).items():
                self.send_header(each, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        bucket.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()


def _listing(bucket: Bucket, query: dict[str, str]) -> str:
    """The names after one that begin with a prefix, up to the next slash after it."""
    prefix = query.get("prefix", "")
    since = query.get("continuation-token", "") or query.get("start-after", "")
    most = min(bucket.most, int(query.get("max-keys", bucket.most)))
    keys, groups, last, more = list[str](), list[str](), "", False
    for key in sorted(bucket.objects, key=str.encode):
        head, slash, _ = key.removeprefix(prefix).partition("/")
        group = prefix + head + slash if slash else ""
        if not key.startswith(prefix) or key.encode() <= since.encode() or (group and group in groups):
            continue
        if query.get("continuation-token") and group and since.startswith(group):
            continue
        if len(keys) + len(groups) == most:
            more = True
            break
        last = group or key
        (groups if group else keys).append(last)
    coded = _coded if bucket.encodes else escape
    lines = [f"<Prefix>{coded(prefix)}</Prefix><IsTruncated>{str(more).lower()}</IsTruncated>"]
    lines += ["<EncodingType>url</EncodingType>"] * bucket.encodes
    lines += [f"<Contents><Key>{coded(key)}</Key><Size>1</Size></Contents>" for key in keys]
    lines += [f"<CommonPrefixes><Prefix>{coded(each)}</Prefix></CommonPrefixes>" for each in groups]
    if more:
        lines.append(f"<NextContinuationToken>{escape(last)}</NextContinuationToken>")
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<?xml version="1.0"?><ListBucketResult xmlns="{space}">{"".join(lines)}</ListBucketResult>'


def _coded(name: str) -> str:
    """A name as S3 encodes it: as in forms, but for slashes."""
    return quote(name, safe="/").replace("%20", "+")
