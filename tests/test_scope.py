"""Scope: rules in their order, by host, domain, place, scheme and expression, depth and budget."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.config import Crawl
from gcs.core import scope, urls
from gcs.core.failures import Cause
from gcs.core.scope import Scope, Verdict
from gcs.domains import registered_domain


def decided(found: Scope, url: str, depth: int = 0, pages: int = 0) -> Verdict:
    """What a scope says about a URL."""
    url = urls.canonical(url)
    key = urls.key(url)
    return found.decide(key, url, key[: key.index(urls.PATH)], depth, pages)


def accepts(rules: str, url: str) -> bool:
    """Whether rules, with spaces between them, take a URL in."""
    return decided(Scope.compile(rules.split()), url).accepted


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        ("", "http://any.example/", True),
        ("+host:a.example", "http://a.example/x", True),
        ("+host:a.example", "https://a.example:8443/x", True),
        ("+host:A.Example", "http://a.example/", True),
        ("+host:a.example", "http://b.a.example/", False),
        ("+host:a.example:8080", "http://a.example:8080/", True),
        ("+host:a.example:8080", "https://a.example:8080/", True),
        ("+host:a.example:8080", "http://a.example/", False),
        ("+host:bücher.example", "http://xn--bcher-kva.example/", True),
        ("+host:127.0.0.1", "http://127.0.0.1/", True),
        ("+host:[::1]", "http://[::1]/", True),
        ("-host:a.example", "http://a.example/", False),
        ("-host:a.example", "http://b.example/", True),
        ("+domain:ibm.com", "http://gcs.almaden.ibm.com/", True),
        ("+domain:ibm.com", "http://ibm.com:81/", True),
        ("+domain:ibm.com", "http://notibm.com/", False),
        ("+domain:almaden.ibm.com", "http://ibm.com/", False),
        ("+domain:no", "http://uio.no/", True),
        ("+domain:127.0.0.1", "http://127.0.0.1/", True),
        ("+scheme:https", "https://a.example/", True),
        ("+scheme:https", "http://a.example/", False),
        ("-scheme:http", "https://a.example/", True),
        ("+prefix:http://a.example/docs", "http://a.example/docs", True),
        ("+prefix:http://a.example/docs", "http://a.example/docs/x/y?z", True),
        ("+prefix:http://a.example/docs", "http://a.example/docs?z", True),
        ("+prefix:http://a.example/docs", "http://a.example/docs-old/x", False),
        ("+prefix:http://a.example/docs", "https://a.example/docs", False),
        ("+prefix:http://a.example/docs/", "http://a.example/docs/x", True),
        ("+prefix:http://a.example/docs/", "http://a.example/docs", False),
        ("+prefix:http://a.example", "http://a.example/x", True),
        ("+prefix:http://a.example", "http://a.example.org/x", False),
        ("+prefix:http://a.example/s?q=a", "http://a.example/s?q=ab", True),
        ("+prefix:http://a.example/s?q=a", "http://a.example/s?q=b", False),
        ("-regex:/login", "http://a.example/login?x", False),
        ("-regex:/login", "http://a.example/log", True),
        ("-regex:\\.(gif|jpe?g)$", "http://a.example/a.jpg", False),
        # The last rule that fits decides.
        ("+host:a -prefix:http://a/x +prefix:http://a/x/y", "http://a/x", False),
        ("+host:a -prefix:http://a/x +prefix:http://a/x/y", "http://a/x/y/z", True),
        ("+domain:a.example -regex:x -host:b.a.example", "http://b.a.example/", False),
        ("-host:b.a.example +domain:a.example", "http://b.a.example/", True),
        ("-regex:secret +host:a.example", "http://a.example/secret", True),
        ("+host:a.example -regex:secret -regex:other", "http://a.example/secret", False),
        ("+host:a.example -regex:secret +regex:not-so-secret", "http://a.example/not-so-secret", True),
        ("+host:a.example -regex:.", "http://b.example/", False),
    ],
)  # fmt: skip
def test_rules(rules: str, url: str, expected: bool) -> None:
    """Rules mean what their kinds say, and the last that fits decides."""
    assert accepts(rules, url) is expected


def test_verdicts_name_the_rule() -> None:
    """A verdict says which rule decided, and what to log for a URL that is left out."""
    found = Scope.compile(["+domain:a.example", "-regex:/x"], max_depth=2, max_pages_per_host=10)
    assert decided(found, "http://a.example/") == (True, "+domain:a.example", None)
    assert decided(found, "http://a.example/x") == (False, "-regex:/x", Cause.BLOCKED)
    assert decided(found, "http://b.example/") == (False, "no rule takes it in", Cause.SCOPE)
    assert decided(found, "http://a.example/", depth=3) == (False, "crawl.max_depth = 2", Cause.DEPTH)
    assert decided(found, "http://a.example/", depth=2, pages=9).accepted
    assert decided(found, "http://a.example/", pages=10) == (
        False,
        "crawl.max_pages_per_host = 10",
        Cause.BUDGET,
    )
    assert decided(found, "http://b.example/", pages=10).cause is Cause.SCOPE
    assert decided(Scope.compile([]), "http://a.example/", depth=10**6, pages=10**9) == (
        True,
        "no rule",
        None,
    )


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("host:a.example", "The scope rule 'host:a.example' must be + or -, then host:"),
        ("+path:/x", "must be + or -"),
        ("+host:a b", "must be + or -"),
        ("+scheme:irc", "The scope rule '+scheme:irc' must name http, https, or the scheme of a source."),
        ("-regex:([", "The scope rule '-regex:([' is no regular expression: missing ]: [."),
        ("-regex:(?=x)", "is no regular expression: "),
        ("+prefix:/docs", "The scope rule '+prefix:/docs' names no prefix: not a valid absolute URL."),
        ("+prefix:gopher://a/", "names no prefix: the scheme 'gopher'"),
        ("+host:a/b", "The scope rule '+host:a/b' must name a host, such as example.org."),
        ("+domain:a:80/", "must name a domain, such as example.org"),
        ("+domain:a.example:8080", "must name a domain without a port"),
        ("+host:a..b:x", "names no host: "),
    ],
)
def test_wrong_rules_are_named(rule: str, sentence: str) -> None:
    """A rule that is wrong is refused with a sentence that names it."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Scope.compile(["+domain:a.example", rule])


HOSTS = ["a.example", "b.a.example", "example", "a.example:81"]
VALUES = st.sampled_from(
    [
        *[f"host:{host}" for host in HOSTS],
        *[f"domain:{host}" for host in HOSTS[:3]],
        "scheme:http",
        "scheme:https",
        "prefix:http://a.example/x",
        "prefix:http://b.a.example/x/",
        "regex:x",
        "regex:y$",
    ]
)
RULES = st.lists(st.tuples(st.sampled_from("+-"), VALUES).map("".join), max_size=8)
URLS = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", "x", "x/", "x/y", "xy", "y", "z?y"]),
)


def fits(value: str, url: str) -> bool:
    """Whether one rule fits, read off its definition."""
    kind, _, what = value.partition(":")
    scheme, _, rest = url.partition("://")
    netloc = rest.partition("/")[0]
    name = netloc.partition(":")[0]
    if kind == "host":
        return what in (name, netloc)
    if kind == "domain":
        return f".{name}".endswith(f".{what}")
    if kind == "scheme":
        return scheme == what
    if kind == "regex":
        return re.search(what, url) is not None
    return url == what or url.startswith((what.rstrip("/") + "/", what + "?"))


@given(RULES, st.lists(URLS, min_size=1, max_size=5))
def test_compiled_rules_agree_with_their_definition(lines: list[str], found: list[str]) -> None:
    """Whatever the rules, the compiled form decides as trying one after the other does."""
    compiled = Scope.compile(lines)
    for url in map(urls.canonical, found):
        expected = not any(line[0] == "+" for line in lines)
        for line in lines:
            if fits(line[1:], url):
                expected = line[0] == "+"
        assert decided(compiled, url).accepted is expected
        assert decided(compiled, url).accepted is expected


def test_a_domain_rule_takes_in_the_registered_domain() -> None:
    """Of a registered domain, a rule takes in what the public suffix list says belongs to it."""
    for host in ("ibm.com", "www.ibm.com", "x.co.uk", "a.b.x.co.uk"):
        assert accepts(f"+domain:{registered_domain(host)}", f"http://{host}/")


def test_hosts_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered per host is bounded."""
    monkeypatch.setattr(scope, "_HOSTS_KEPT", 3)
    found = Scope.compile(["+domain:a.example"])
    for n in range(10):
        assert decided(found, f"http://h{n}.a.example/").accepted
        assert len(found._hosts) <= 3


def test_the_settings_fit() -> None:
    """A scope is made of the settings of a crawl, whose defaults take everything in."""
    crawl = Crawl()
    found = Scope.compile(crawl.scope, max_depth=crawl.max_depth, max_pages_per_host=crawl.max_pages_per_host)
    assert decided(found, "http://a.example/").accepted
