"""What a crawl begins with: URLs as users give them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from gcs.config import Config
from gcs.core.urls import TRACKING, Cleaning, Rejected, canonical
from gcs.errors import UsageError
from gcs.gatherer.links import Target, Targets
from gcs.sources.chosen import reach_of


def targets_of(config: Config) -> Targets:
    """The targets of a crawl: URLs are cleaned, and links of sources followed, as the configuration says."""
    return Targets(cleaning(config), reach=reach_of(config.sources))


def cleaning(config: Config) -> Cleaning:
    """What is taken out of URLs, as the configuration says."""
    chosen = config.crawl.clean
    return Cleaning(
        parameters=TRACKING.parameters if "tracking" in chosen else frozenset(),
        prefixes=TRACKING.prefixes if "tracking" in chosen else (),
        session_ids="sessions" in chosen,
        sort_query="sort" in chosen,
    )


def read_seeds(path: Path) -> list[str]:
    """The URLs in a file, one to a line; raises UsageError. Empty lines and those with # are passed over.

    The path `-` stands for the standard input.
    """
    try:
        text = sys.stdin.read() if path == Path("-") else path.read_text(encoding="utf-8")
        lines = text.splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the seeds cannot be read: {error}.") from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def seed_url(targets: Targets, text: str) -> str:
    """A seed as a URL; http:// may be left out."""
    try:
        # A colon may be that of a port.
        has_scheme = "://" in text or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])", text)
        return targets.seed(text if has_scheme else f"http://{text}").url
    except Rejected as error:
        raise UsageError(f"{without_login(text)} cannot be crawled: {error}.") from error


def target_of(config: Config, text: str) -> Target:
    """The URL that a user means; http:// may be left out. Raises UsageError."""
    try:
        return Target(canonical(text if "://" in text else f"http://{text}", cleaning(config)))
    except Rejected as error:
        raise UsageError(f"{without_login(text)} cannot be crawled: {error}.") from error


def without_login(text: str) -> str:
    """A URL as it may be shown and logged, whatever somebody has written into it."""
    head, at, rest = text.rpartition("@")
    scheme, slashes, _ = head.partition("://")
    return f"{scheme}{slashes}…@{rest}" if at and slashes else text
