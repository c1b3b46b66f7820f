"""Parts of the web as operators name them: a host with all its schemes and ports, or a URL and what is below.

As in the scope of a crawl, `http://example.org/docs` has `/docs/a` and `/docs?b`, not `/docs-old`.
"""

from __future__ import annotations

from gcs.core.urls import PATH, SCHEME, Rejected, canonical, key, readable, url
from gcs.errors import UsageError


def prefix_of(text: str) -> str:
    """The prefix of the keys of a host or URL; raises UsageError."""
    has_scheme = "://" in text
    if not has_scheme and any(each in text for each in "/?#"):
        raise UsageError(f"{text} says neither http:// nor https://; give that too, or the host alone.")
    is_url = has_scheme or ":" in text.rpartition("]")[2]
    try:
        found = key(canonical(text if has_scheme else f"http://{text}"))
    except Rejected as error:
        raise UsageError(f"{text or 'nothing'} is neither a host nor a URL: {error}.") from error
    return found if is_url else found[: found.index(SCHEME) + len(SCHEME)]


def host_prefix(text: str) -> str:
    """The same, of a host only."""
    found = prefix_of(text)
    if not found.endswith(SCHEME):
        raise UsageError(f"{text} is not the name of a host, such as www.example.org.")
    return found


def named(prefix: str) -> str:
    """What operators call a part."""
    if prefix.endswith(SCHEME):
        return url(f"{prefix}http{PATH}").removeprefix("http://").removesuffix("/")
    return url(prefix) if PATH in prefix else readable(prefix)
