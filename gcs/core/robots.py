"""What a host's robots.txt allows, by RFC 9309.

A parser and matcher of our own. Of what sites really write, `protego` misreads three things: it applies
the group of `foo` to the crawler `foobar`, does not find the group of `foo` under `User-agent: foo/1.2`, and
lets a Crawl-delay line end a list of agents, though other records must not interfere (RFC 9309, section
2.2.4). It also looks through all rules of a group for every question.

`Rules` owns what holds for one crawler at one host: the rules of its groups, merged, and until when they
hold. Invariant: of all the rules that match, the longest decides, and of two equally long ones the one that
allows; so the order of lines never matters. Everything is compared in one spelling (`_spelling`), in which no
pattern and no target has two forms.

A rule without a wildcard is a prefix. The longest one that fits is found by bisection: of all strings in a
sorted list that are prefixes of a target, each is a prefix of the one just before the target's place. Of
rules with wildcards only those are tried whose longest part occurs in the target. A file with more wildcards
than any site needs has the rest of its rules read more strictly, so no file can make a question slow.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgpack

MAX_BYTES: Final = 512 << 10
MAX_REDIRECTS: Final = 5
MIN_AGE_S: Final = 3600.0
MAX_AGE_S: Final = 86_400.0
FIRST_RETRY_S: Final = 60.0
GIVEN_UP_AFTER_S: Final = 30 * 86_400.0
_TARGET: Final = "/robots.txt"
_VERSION: Final = 1
_MAX_WILDCARDS: Final = 5000
_MAX_SITEMAPS: Final = 1000

_LINE = re.compile(r"[^\r\n]+")
_FIELDS = {
    "user-agent": "agent",
    "useragent": "agent",
    "user agent": "agent",
    "allow": "allow",
    "disallow": "disallow",
    "dissallow": "disallow",
    "disalow": "disallow",
    "crawl-delay": "delay",
    "crawldelay": "delay",
    "sitemap": "sitemap",
    "site-map": "sitemap",
}
_PRODUCT = re.compile(r"[A-Za-z0-9_.\-]*")
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:cache|store)\b", re.IGNORECASE)

# What does not stand for itself in the one spelling: "*" and "$", which mean something in a pattern, and what
# canonical URLs never have unencoded.
_OTHER = re.compile(r"%[0-9A-Fa-f]{2}|[%*$ \"<>]|[^\x21-\x7e]")
# What is never left encoded: what RFC 3986 calls unreserved, and what the WHATWG standard encodes in a path
# and leaves alone in a query, or the other way round.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~'^`{|}\\")
# What says that a target is not in the one spelling: one look instead of a look at every escape.
_FOREIGN = re.compile(
    r"%(?![0-9A-F]{2})|%(?:2[7DEF]|3[0-9A]|4[1-9A-F]|5[0-9ACEF]|6[0-9A-F]|7[0-9A-E])|[*$ \"<>]|[^\x21-\x7e]"
)
_IN_QUERY = re.compile(r"%3A|%2F")


class Standing(StrEnum):
    """Where rules come from: a file, none to be had (all is allowed), or no answer (all waits)."""

    READ = "read"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"


class Rule(NamedTuple):
    """One line of a group, its pattern in the one spelling."""

    pattern: str
    allow: bool


class Rules:
    """What one crawler may ask of one host, and until when that holds.

    While the standing is `UNREACHABLE` nothing is allowed, but that is no verdict on a URL: it waits until
    `until`, when robots.txt is asked for again. `failing_since` and `failures` tell for how long and how
    often that was in vain.
    """

    __slots__ = (
        "_exact",
        "_parents",
        "_prefixes",
        "_wild",
        "crawl_delay_s",
        "failing_since",
        "failures",
        "rules",
        "sitemaps",
        "standing",
        "until",
    )

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        until: float,
        crawl_delay_s: float | None = None,
        sitemaps: tuple[str, ...] = (),
        standing: Standing = Standing.READ,
        failing_since: float | None = None,
        failures: int = 0,
    ) -> None:
        """Rules in any order."""
        self.rules = tuple(rules)
        self.until = until
        self.crawl_delay_s = crawl_delay_s
        self.sitemaps = sitemaps
        self.standing = standing
        self.failing_since = failing_since
        self.failures = failures
        prefixes: dict[str, bool] = {}
        exact: dict[str, bool] = {}
        wild: dict[str, bool] = {}
        for pattern, allow in self.rules:
            table = wild if "*" in pattern else exact if pattern.endswith("$") else prefixes
            table[pattern] = table.get(pattern, False) or allow
        self._prefixes = sorted(prefixes)
        self._parents = _parents(self._prefixes, prefixes)
        self._exact = {pattern[:-1]: allow for pattern, allow in exact.items()}
        ordered = sorted((_Wildcard.of(p, allow=allow) for p, allow in wild.items()), key=_Wildcard.order)
        self._wild = [(rule.longest_part(), rule) for rule in ordered]

    def allowed(self, target: str) -> bool:
        """Whether a path and query may be asked for."""
        # Most targets have nothing that could be spelled in another way.
        if "%" in target or "*" in target or "$" in target or not target.isascii():
            target = _spelling(target)
        length, allow = self._longest_prefix(target)
        if target in self._exact and len(target) + 1 > length:
            length, allow = len(target) + 1, self._exact[target]
        if self._wild:
            allow = self._with_wildcards(target, length, allow=allow)
        return allow or target == _TARGET

    def _longest_prefix(self, target: str) -> tuple[int, bool]:
        prefixes = self._prefixes
        at = bisect_right(prefixes, target) - 1
        while at >= 0:
            parent, allow = self._parents[at]
            if target.startswith(prefixes[at]):
                return len(prefixes[at]), allow
            at = parent
        return -1, True

    def _with_wildcards(self, target: str, length: int, *, allow: bool) -> bool:
        """What the rules with wildcards make of what the others say, by a rule of that length."""
        for rule in [rule for part, rule in self._wild if part in target]:
            if rule.length < length or (rule.length == length and allow):
                break
            if rule.matches(target):
                return rule.allow
        return allow

    def to_bytes(self) -> bytes:
        """All of it, for storing."""
        rules = [(rule.pattern, rule.allow) for rule in self.rules]
        packed: bytes = msgpack.packb(
            (
                _VERSION,
                self.until,
                self.standing.value,
                self.crawl_delay_s,
                self.sitemaps,
                self.failing_since,
                self.failures,
                rules,
            )
        )
        return packed

    @classmethod
    def from_bytes(cls, stored: bytes) -> Rules:
        """What `to_bytes` gave; raises ValueError for anything else."""
        try:
            version, until, standing, delay, sitemaps, since, failures, rules = msgpack.unpackb(stored)
            if version != _VERSION:
                raise ValueError(f"rules of version {version}, not {_VERSION}")
            return cls(
                [Rule(str(pattern), bool(allow)) for pattern, allow in rules],
                until=float(until),
                standing=Standing(standing),
                crawl_delay_s=delay,
                sitemaps=tuple(sitemaps),
                failing_since=since,
                failures=int(failures),
            )
        except (TypeError, ValueError, msgpack.exceptions.UnpackException) as error:
            raise ValueError(f"these are no stored robots rules: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self._contents() == other._contents()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Rules {self.standing} {len(self.rules)} until {self.until:.0f}>"

    def _contents(self) -> tuple[Any, ...]:
        kept = self.crawl_delay_s, self.sitemaps, self.standing, self.failing_since, self.failures
        return (self.rules, self.until, *kept)


def read(body: bytes, *, agent: str, now: float, max_age_s: float | None = None) -> Rules:
    """The rules in a robots.txt for an agent, such as `GCS/1.0 (+http://…)`, as of now."""
    lasting = MAX_AGE_S if max_age_s is None else min(max(max_age_s, MIN_AGE_S), MAX_AGE_S)
    own, everyone, sitemaps = _Group(), _Group(), dict[str, None]()
    product = product_token(agent)
    groups: list[_Group] = []
    opening = False
    for name, value in _lines(_text(body)):
        if name == "agent":
            if not opening:
                groups = []
            opening = True
            if (group := _group_of(value, product, own, everyone)) is not None:
                groups.append(group)
        elif name == "sitemap":
            if value.lower().startswith(("http://", "https://")) and len(sitemaps) < _MAX_SITEMAPS:
                sitemaps[value] = None
        else:
            # Only rules end the list of agents that a group begins with.
            opening = opening and name == "delay"
            for group in groups:
                group.add(name, value)
    chosen = own if own.named else everyone
    return Rules(chosen.rules, until=now + lasting, crawl_delay_s=chosen.delay_s, sitemaps=tuple(sitemaps))


def unavailable(now: float) -> Rules:
    """There is no robots.txt to be had: everything is allowed (RFC 9309, section 2.3.1.3)."""
    return Rules((), until=now + MAX_AGE_S, standing=Standing.UNAVAILABLE)


def unreachable(now: float, previous: Rules | None = None) -> Rules:
    """The host fails to answer: nothing is allowed, and it is asked again later, each time twice as late.

    After 30 days of that, robots.txt counts as unavailable (RFC 9309, section 2.3.1.4).
    """
    failing = previous if previous is not None and previous.failures else None
    since = now if failing is None or failing.failing_since is None else failing.failing_since
    failures = 1 + (0 if failing is None else failing.failures)
    given_up = now - since >= GIVEN_UP_AFTER_S
    return Rules(
        () if given_up else (Rule("/", allow=False),),
        until=now + min(FIRST_RETRY_S * 2 ** min(failures - 1, 20), MAX_AGE_S),
        standing=Standing.UNAVAILABLE if given_up else Standing.UNREACHABLE,
        failing_since=since,
        failures=failures,
    )


def answered(
    status: int,
    body: bytes,
    *,
    agent: str,
    now: float,
    cache_control: str = "",
    previous: Rules | None = None,
) -> Rules:
    """The rules that follow from an answer, after redirects: a 3xx here is one that led nowhere.

    Any 4xx means that there is no robots.txt, apart from 429: who is told to ask less often does not conclude
    that everything is allowed, so that is taken for the failing server it stands for.
    """
    if 200 <= status < 300:
        return read(body, agent=agent, now=now, max_age_s=max_age(cache_control))
    if 300 <= status < 500 and status != 429:
        return unavailable(now)
    return unreachable(now, previous)


def max_age(cache_control: str) -> float | None:
    """For how many seconds a Cache-Control header lets an answer be kept; None when it does not say."""
    if _NOT_KEPT.search(cache_control):
        return 0.0
    found = _MAX_AGE.search(cache_control)
    return float(found[1]) if found else None


def product_token(agent: str) -> str:
    """What robots.txt calls an agent: `gcs` for `GCS/1.0 (+http://…)`."""
    found = _PRODUCT.match(agent.strip())
    assert found is not None  # it matches the empty string too
    return found.group().lower()


def everything_allowed(until: float = math.inf) -> Rules:
    """Rules for a crawl that ignores robots.txt."""
    return Rules((), until=until, standing=Standing.UNAVAILABLE)


class _Group:
    """The rules of all the groups of one agent, merged; only one with an own line was named."""

    __slots__ = ("delay_s", "named", "rules", "wildcards")

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.wildcards = 0
        self.delay_s: float | None = None
        self.named = False

    def add(self, name: str, value: str) -> None:
        if name != "delay":
            if value:
                self._add_rule(_pattern(value), allow=name == "allow")
            return
        try:
            delay_s = float(value)
        except ValueError:
            return
        if 0 <= delay_s < math.inf:
            self.delay_s = max(delay_s, self.delay_s or 0.0)

    def _add_rule(self, pattern: str, *, allow: bool) -> None:
        self.wildcards += pattern.count("*")
        if self.wildcards > _MAX_WILDCARDS and "*" in pattern:
            if allow:
                return
            pattern = pattern.partition("*")[0]
        self.rules.append(Rule(pattern, allow))


def _group_of(value: str, product: str, own: _Group, everyone: _Group) -> _Group | None:
    if value.startswith("*") and not value[1:2].strip():
        return everyone
    if product and product_token(value) == product:
        own.named = True
        return own
    return None


def _text(body: bytes) -> str:
    body = body.removeprefix(b"\xef\xbb\xbf")
    if len(body) > MAX_BYTES:
        # The line that was cut through says something else than its author: `/` for `/private`.
        body = body[:MAX_BYTES]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")


def _lines(text: str) -> Iterable[tuple[str, str]]:
    for found in _LINE.finditer(text):
        line = found.group().partition("#")[0]
        name, _, value = line.partition(":")
        field = _FIELDS.get(name.strip().lower())
        if field is not None:
            yield field, value.strip()


def _pattern(value: str) -> str:
    """A pattern in the one spelling, in which only a wildcard is `*` and only the end is `$`."""
    anchored = value.endswith("$")
    parts = [_spelling_of(part) for part in value.removesuffix("$").split("*")]
    text = re.sub(r"\*{2,}", "*", "*".join(parts))
    head, question, query = text.partition("?")
    if question:
        text = head + question + _IN_QUERY.sub(_decoded, query)
    return text + "$" if anchored else text


def _spelling(target: str) -> str:
    """A target in the one spelling."""
    if _FOREIGN.search(target) is None:
        return target
    head, question, query = _spelling_of(target).partition("?")
    return head + question + _IN_QUERY.sub(_decoded, query) if question else head


def _spelling_of(text: str) -> str:
    return _OTHER.sub(_respelled, text)


def _respelled(found: re.Match[str]) -> str:
    text = found.group()
    if len(text) == 3:
        char = chr(int(text[1:], 16))
        return char if char in _PLAIN else text.upper()
    if text == "%":
        return "%25"
    return "".join(f"%{octet:02X}" for octet in text.encode("utf-8", "surrogatepass"))


def _decoded(found: re.Match[str]) -> str:
    # RFC 9309 takes "https://" and "https%3A%2F%2F" in a query for the same (table in section 2.2.2).
    return ":" if found.group() == "%3A" else "/"


def _parents(prefixes: Sequence[str], allows: dict[str, bool]) -> list[tuple[int, bool]]:
    """For each of the sorted prefixes the longest other one that it begins with (-1: none), and its rule."""
    parents: list[tuple[int, bool]] = []
    open_ones: list[int] = []
    for at, prefix in enumerate(prefixes):
        while open_ones and not prefix.startswith(prefixes[open_ones[-1]]):
            open_ones.pop()
        parents.append((open_ones[-1] if open_ones else -1, allows[prefix]))
        open_ones.append(at)
    return parents


class _Wildcard(NamedTuple):
    """A rule with wildcards, cut into what must be found one after the other."""

    length: int
    allow: bool
    first: str
    others: tuple[str, ...]
    last: str | None

    @classmethod
    def of(cls, pattern: str, *, allow: bool) -> _Wildcard:
        first, *others = pattern.removesuffix("$").split("*")
        last = others.pop() if pattern.endswith("$") else None
        return cls(len(pattern), allow, first, tuple(others), last)

    def order(self) -> tuple[int, bool]:
        """The longest first, and of equally long ones those that allow."""
        return -self.length, not self.allow

    def longest_part(self) -> str:
        """What a target must have somewhere for the rule to match."""
        return max((self.first, *self.others, self.last or ""), key=len)

    def matches(self, target: str) -> bool:
        """Whether all parts are there in their order; for each, the first place is as good as any later."""
        if not target.startswith(self.first):
            return False
        at = len(self.first)
        for part in self.others:
            at = target.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return self.last is None or (len(target) - len(self.last) >= at and target.endswith(self.last))
