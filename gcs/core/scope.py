"""Which URLs belong to the crawl: rules of the user, the distance from a seed, and a host's budget.

A rule is a sign, a kind and a value, such as `+domain:example.org` or `-regex:/login`; the last rule that
fits a URL decides. Where none fits, a URL is in, unless there is a rule that takes something in.

    host     that host, on any port unless one is given
    domain   that name and every name below it, be it a host, a registered domain or a whole suffix
    prefix   a URL and what is below it in the URL tree: `/docs` has `/docs/a` and `/docs?b`, not `/docs-old`
    scheme   http, https, or that of another source: file, nntp, nntps, ftp, sftp, s3, db
    regex    found anywhere in the URL; RE2's syntax, in linear time

A `Scope` is compiled: what hosts, domains and schemes decide is remembered per host, together with the few
rules after it that look at the rest of a URL. A host without such rules costs one look into a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import re2

from gcs.core import urls
from gcs.core.failures import Cause
from gcs.core.sources import PORTS

_RULE = re.compile(r"([+-])(host|domain|prefix|scheme|regex):(\S+)")
_NAME = re.compile(r"[^/?#@\s]+")
_HOSTS_KEPT: Final = 100_000


class Verdict(NamedTuple):
    """Whether a URL belongs to the crawl, the rule that says so, and for one that does not, what to log."""

    accepted: bool
    rule: str
    cause: Cause | None = None


class _Rule(NamedTuple):
    """One compiled rule; what a kind does not use is empty."""

    line: str
    verdict: Verdict
    kind: str
    value: str
    regex: int = -1


class _HostRules(NamedTuple):
    """What is decided for a host: a verdict, and the rules that may overrule it, the strongest first."""

    verdict: Verdict
    others: Sequence[_Rule]
    any_regex: bool


class Scope:
    """The compiled rules."""

    def __init__(
        self,
        rules: Sequence[_Rule],
        regexes: Any,
        *,
        max_depth: int | None = None,
        max_pages_per_host: int | None = None,
    ) -> None:
        """Use `compile`."""
        self._rules = rules
        self._regexes = regexes
        self._max_depth = max_depth
        self._max_pages = max_pages_per_host
        closed = any(rule.verdict.accepted for rule in rules)
        self._default = (
            Verdict(accepted=False, rule="no rule takes it in", cause=Cause.SCOPE)
            if closed
            else Verdict(accepted=True, rule="no rule")
        )
        self._too_deep = Verdict(accepted=False, rule=f"crawl.max_depth = {max_depth}", cause=Cause.DEPTH)
        self._too_many = Verdict(
            accepted=False, rule=f"crawl.max_pages_per_host = {max_pages_per_host}", cause=Cause.BUDGET
        )
        self._hosts: dict[str, _HostRules] = {}

    @classmethod
    def compile(
        cls, lines: Iterable[str], *, max_depth: int | None = None, max_pages_per_host: int | None = None
    ) -> Scope:
        """The scope of a list of rules; raises ValueError with a sentence that names the wrong one."""
        rules: list[_Rule] = []
        expressions: list[str] = []
        for line in lines:
            rule = _compile(line, len(expressions))
            if rule.kind == "regex":
                expressions.append(rule.value)
            rules.append(rule)
        return cls(rules, _set_of(expressions), max_depth=max_depth, max_pages_per_host=max_pages_per_host)

    def decide(self, key: str, url: str, host: str, depth: int, pages: int = 0) -> Verdict:
        """Whether a URL belongs to the crawl.

        It is given as key and as canonical URL, with the part of its key that ends before its path, the
        number of links from a seed to it, and how many pages of its host have been taken in before it.
        """
        if self._max_depth is not None and depth > self._max_depth:
            return self._too_deep
        found = self._hosts.get(host)
        if found is None:
            found = self._for_host(host)
        verdict = self._overruled(found, key, url) if found.others else found.verdict
        if verdict.accepted and self._max_pages is not None and pages >= self._max_pages:
            return self._too_many
        return verdict

    def _overruled(self, found: _HostRules, key: str, url: str) -> Verdict:
        matched = (self._regexes.Match(url) or ()) if found.any_regex else ()
        for rule in found.others:
            if rule.regex in matched if rule.kind == "regex" else _below(key, rule.value):
                return rule.verdict
        return found.verdict

    def _for_host(self, host: str) -> _HostRules:
        others: list[_Rule] = []
        verdict = self._default
        for rule in reversed(self._rules):
            if rule.kind == "regex" or (rule.kind == "prefix" and rule.value.startswith(host + urls.PATH)):
                others.append(rule)
            elif rule.kind != "prefix" and _fits_host(rule, host):
                verdict = rule.verdict
                break
        if len(self._hosts) >= _HOSTS_KEPT:
            self._hosts.clear()
        any_regex = any(rule.kind == "regex" for rule in others)
        found = self._hosts[host] = _HostRules(verdict, others, any_regex)
        return found


def _compile(line: str, regexes: int) -> _Rule:
    parts = _RULE.fullmatch(line)
    if parts is None:
        raise ValueError(
            f"The scope rule {line!r} must be + or -, then host:, domain:, prefix:, scheme: or regex:, "
            "and a value without spaces."
        )
    sign, kind, value = parts.groups()
    verdict = Verdict(accepted=sign == "+", rule=line, cause=None if sign == "+" else Cause.BLOCKED)
    return _Rule(line, verdict, kind, _value(kind, value, line), regexes if kind == "regex" else -1)


def _value(kind: str, value: str, line: str) -> str:
    if kind == "regex":
        try:
            re2.compile(value, _options())
        except re2.error as error:
            raise ValueError(f"The scope rule {line!r} is no regular expression: {_said(error)}.") from error
        return value
    if kind == "scheme":
        if value not in ("http", "https") and value not in PORTS:
            raise ValueError(f"The scope rule {line!r} must name http, https, or the scheme of a source.")
        return value
    return _key_of(kind, value, line)


def _key_of(kind: str, value: str, line: str) -> str:
    """The value of a rule about a place, as the beginning of keys."""
    if kind != "prefix" and not _NAME.fullmatch(value):
        raise ValueError(f"The scope rule {line!r} must name a {kind}, such as example.org.")
    try:
        key = urls.key(urls.canonical(value if kind == "prefix" else f"http://{value}/"))
    except urls.Rejected as error:
        raise ValueError(f"The scope rule {line!r} names no {kind}: {error}.") from error
    if kind == "prefix":
        return key
    labels, _, rest = key.partition(urls.SCHEME)
    port = rest.removeprefix("http").partition(urls.PATH)[0]
    if kind == "domain":
        if port:
            raise ValueError(f"The scope rule {line!r} must name a domain without a port.")
        return labels
    return f"{labels}{urls.SCHEME}{port}"


def _fits_host(rule: _Rule, host: str) -> bool:
    labels, _, scheme_and_port = host.partition(urls.SCHEME)
    scheme, colon, port = scheme_and_port.partition(":")
    if rule.kind == "scheme":
        return scheme == rule.value
    if rule.kind == "domain":
        return labels == rule.value or labels.startswith(rule.value + urls.HOST)
    name, _, wanted = rule.value.partition(urls.SCHEME)
    return labels == name and wanted in ("", colon + port)


def _below(key: str, prefix: str) -> bool:
    """Whether a key is at or below the place that a rule names."""
    if not key.startswith(prefix):
        return False
    # A prefix that ends with a slash, or in its query, ends there; any other must end with a whole token.
    return (
        len(key) == len(prefix)
        or prefix.endswith(urls.PATH)
        or urls.QUERY in prefix
        or key[len(prefix)] < urls.AFTER
    )


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    return options


def _set_of(expressions: Sequence[str]) -> Any:
    """All expressions as one automaton, which tells which of them are found in a text."""
    found = re2.Set.SearchSet(_options())
    for expression in expressions:
        found.Add(expression)
    found.Compile()
    return found


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
