"""URLs: their canonical form, and their place in the one order of everything.

The URL tree has, from the root down: the host's labels from right to left, then scheme and port, then the
segments of the path, then the query as one more level. A *step* is one edge of that tree: a separator,
which says what kind of step it is, and a token. A URL's *key* is its steps in a row.

Separators are below 0x20 and tokens have no such characters, and that is all it takes: a key that goes on
after a whole token goes on with something smaller than anything a longer token could go on with. So the
keys below a node are one contiguous range, so are those of any run of siblings, and the order of keys is
the order of the tree. (003, section 4.2 and 4.4.)

    http://gcs.almaden.ibm.com/docs/index.htm?x=1
    HOST com HOST ibm HOST almaden HOST gcs SCHEME http PATH docs PATH index.htm QUERY x=1

Files and other sources have URLs too (`gcs.core.sources`). That of a file has no host: the only label of its
key is empty.

    file:///srv/docs/a.txt
    HOST SCHEME file PATH srv PATH docs PATH a.txt
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import ada_url

from gcs.core import sources

MAX_LENGTH: Final = 2000

SCHEME: Final = "\x01"
HOST: Final = "\x02"
QUERY: Final = "\x03"
PATH: Final = "\x04"
AFTER: Final = "\x05"
"""What follows a node's prefix is below this, for all that is in its subtree, and above it for no sibling."""

_STEP = re.compile(r"[\x01-\x04][^\x01-\x04]*")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STRIPPED = "".join(map(chr, range(0x21)))
_PARTS = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?\Z", re.DOTALL)
# URLs that are as the standard would write them, told without its parser, which takes several times as long:
# a name in lower case that is no number and no Punycode, no default port, and in path and query only what is
# never encoded, decoded or left out.
_PLAIN = re.compile(
    r"https?://(?:(?!xn--)[a-z0-9][a-z0-9-]{0,60}+\.)*+(?!xn--)[a-z][a-z0-9-]*+"
    r"(?::(?!(?:80|443)/)[1-9][0-9]{0,3})?(?:/(?!\.)[A-Za-z0-9._~!$&()*+,;=:@-]*+)++(?:\?[A-Za-z0-9._~!$&()*+,;=:@/?-]*+)?+"
).fullmatch
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+\Z")


class Rejected(ValueError):
    """A URL that cannot be crawled; the message says why."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is taken out of URLs because it does not change the page. Nothing, unless asked for."""

    parameters: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    session_ids: bool = False
    sort_query: bool = False

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.parameters or self.prefixes or self.session_ids or self.sort_query)


NO_CLEANING: Final = Cleaning()
TRACKING: Final = Cleaning(
    parameters=frozenset(
        {"gclid", "dclid", "fbclid", "msclkid", "mc_cid", "mc_eid", "igshid", "yclid", "_ga"}
    ),
    prefixes=("utm_",),
    session_ids=True,
)
_SESSION_PARAMETERS = frozenset({"phpsessid", "jsessionid", "sessionid", "session_id", "sid", "aspsessionid"})
_SESSION_SEGMENT = re.compile(r";jsessionid=[^/;?]*", re.IGNORECASE)


def canonical(url: str, cleaning: Cleaning = NO_CLEANING) -> str:
    """The one form of a URL, by the WHATWG standard, without its fragment; raises Rejected with a reason."""
    if _PLAIN(url) and not cleaning.any and len(url) <= MAX_LENGTH:
        return url
    if _CONTROL.search(url.strip(_STRIPPED)):
        raise Rejected("a control character in the URL")
    try:
        href: str = ada_url.normalize_url(url)
    except ValueError:
        raise Rejected("not a valid absolute URL") from None
    parts = _PARTS.match(href)
    if parts is None:
        return _of_source(href)
    scheme, authority, path, query = parts.groups()
    if not authority:
        raise Rejected("no host")
    if "@" in authority:
        raise Rejected("a user name or password in the URL")
    before = path
    if cleaning.any:
        path, query = _clean(path, query, cleaning)
    clean = f"{scheme}://{authority}{path}" + ("" if query is None else f"?{query}")
    if path != before:
        return canonical(clean)  # a segment that was cleaned may have become a dot or two
    if len(clean) > MAX_LENGTH:
        raise Rejected(f"{len(clean)} characters, over {MAX_LENGTH}")
    return clean


def _of_source(href: str) -> str:
    scheme = href.partition(":")[0]
    if not sources.is_source(scheme):
        known = ", ".join(("http", "https", *sources.PORTS))
        raise Rejected(f"the scheme {scheme[:40]!r} is none of {known}")
    try:
        url = sources.form(href)
    except ValueError as error:
        raise Rejected(str(error)) from None
    if len(url) > MAX_LENGTH:
        raise Rejected(f"{len(url)} characters, over {MAX_LENGTH}")
    return url


def _clean(path: str, query: str | None, cleaning: Cleaning) -> tuple[str, str | None]:
    if cleaning.session_ids:
        path = _SESSION_SEGMENT.sub("", path)
    if not query:
        return path, query
    kept = [pair for pair in query.split("&") if not _is_noise(pair.partition("=")[0].lower(), cleaning)]
    if cleaning.sort_query:
        kept.sort()
    return path, "&".join(kept) if kept else None


def _is_noise(name: str, cleaning: Cleaning) -> bool:
    return (
        name in cleaning.parameters
        or (bool(cleaning.prefixes) and name.startswith(cleaning.prefixes))
        or (cleaning.session_ids and name in _SESSION_PARAMETERS)
    )


@lru_cache(maxsize=65536)
def _host_prefix(scheme: str, authority: str) -> str:
    """The steps of host, scheme and port; sites are few, and asked for with every URL."""
    host, port = _split_port(authority)
    if host.startswith("[") or scheme == sources.S3:
        labels: Iterable[str] = (host,)  # the names of buckets may end with a number
    elif _IPV4.match(host):
        labels = host.split(".")
    else:
        labels = reversed(host.split("."))
    return "".join([HOST + label for label in labels]) + SCHEME + scheme + (f":{port}" if port else "")


def _split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.rpartition(":")
    return (host, port) if colon and not authority.endswith("]") else (authority, "")


def key(url: str) -> str:
    """The key of a canonical URL; raises ValueError for one without a path, which is none."""
    scheme, _, rest = url.partition("://")
    slash = rest.find("/")
    if slash < 0:
        raise ValueError(f"not a canonical URL: {url!r}")
    authority, tail = rest[:slash], rest[slash + 1 :]
    path, question, query = tail.partition("?")
    steps = _host_prefix(scheme, authority) + PATH + path.replace("/", PATH)
    return steps + QUERY + query if question else steps


def url(of: str) -> str:
    """The canonical URL of a key: the inverse of `key`."""
    host, scheme, rest = of.partition(SCHEME)
    labels = host[1:].split(HOST)
    if not labels[0].isdigit() and not labels[0].startswith("["):
        labels.reverse()
    path_at = rest.index(PATH)
    name, colon, port = rest[:path_at].partition(":")
    path, question, query = rest[path_at:].partition(QUERY)
    authority = ".".join(labels) + colon + port
    return f"{name}{scheme and '://'}{authority}{path.replace(PATH, '/')}" + (f"?{query}" if question else "")


def is_of_source(host: str) -> bool:
    """Whether a host, given as the part of a key before its path, is no web server, but another source."""
    return sources.is_source(host.partition(SCHEME)[2].partition(":")[0])


def steps(of: str) -> list[str]:
    """A key, cut into its steps."""
    return _STEP.findall(of)


def tokens(url: str) -> tuple[str, ...]:
    """The tokens of a URL's path in the tree, in the order of the tree."""
    return tuple(step[1:] for step in steps(key(canonical(url))))


def next_step(of: str, start: int) -> str:
    """The step of a key that starts at a position; "" for a key that ends there."""
    found = _STEP.match(of, start)
    return found.group() if found else ""


def subtree(prefix: str) -> tuple[str, str]:
    """The range of keys [from, to) that are at or below a node."""
    return prefix, prefix + AFTER


def part(prefix: str) -> tuple[str, str]:
    """The range of keys [from, to) in a part of the web that somebody names.

    That is what is at or below a node; for a prefix that ends with a separator, what goes on after it with
    any token, such as all schemes and ports of a host.
    """
    last = prefix[-1:]
    return (prefix, prefix[:-1] + chr(ord(last) + 1)) if SCHEME <= last <= PATH else subtree(prefix)


def surt(url: str) -> str:
    """A URL as people read keys: `com,ibm,almaden,gcs)/docs/index.htm`, scheme and port where unusual."""
    host, _, rest = key(url).partition(SCHEME)
    path_at = rest.index(PATH)
    scheme, _, port = rest[:path_at].partition(":")
    path, question, query = rest[path_at:].partition(QUERY)
    shown = "".join([f":{scheme}" if scheme != "http" else "", f":{port}" if port else ""])
    return f"{host[1:].replace(HOST, ',')}{shown}){path.replace(PATH, '/')}" + (
        f"?{query}" if question else ""
    )


def readable(prefix: str) -> str:
    """A node's prefix, or any part of a key, for people: host labels by commas, the path by slashes."""
    shown = prefix.replace(HOST, ",").replace(SCHEME, ")").replace(PATH, "/").replace(QUERY, "?")
    shown = shown.removeprefix(",") or "(everything)"
    return f"after {shown.removesuffix(AFTER)}" if shown.endswith(AFTER) else shown
