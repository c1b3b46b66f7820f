"""Origins."""

from __future__ import annotations

import pytest

from gcs.core.urls import canonical
from gcs.fetch.outcome import Origin


@pytest.mark.parametrize(
    ("url", "origin", "target", "netloc"),
    [
        ("http://a.com/", Origin("http", "a.com", 80), "/", "a.com"),
        ("HTTPS://A.com:443/x/../y?q#f", Origin("https", "a.com", 443), "/y?q", "a.com"),
        ("http://a.com:8080?x=://y/", Origin("http", "a.com", 8080), "/?x=://y/", "a.com:8080"),
        ("http://[::1]/a", Origin("http", "::1", 80), "/a", "[::1]"),
        ("https://[2001:db8::7]:80/", Origin("https", "2001:db8::7", 80), "/", "[2001:db8::7]:80"),
    ],
)
def test_a_url_is_an_origin_and_a_target(url: str, origin: Origin, target: str, netloc: str) -> None:
    """A canonical URL is taken apart and can be put together again."""
    url = canonical(url)
    assert Origin.split(url) == (origin, target)
    assert origin.netloc == netloc
    assert f"{origin}{target}" == url


def test_one_object_per_origin() -> None:
    """Two URLs of a site give the same origin object, so that tables find it by identity."""
    assert Origin.split("http://a.com/1")[0] is Origin.split("http://a.com/2")[0]
