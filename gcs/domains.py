"""The registered domain of a host, by the public suffix list that tldextract brings; nothing is fetched."""

from __future__ import annotations

from functools import cache

import tldextract


@cache
def _extract() -> tldextract.TLDExtract:
    # No list is downloaded and none is cached on disk: two gatherers must agree on what a domain is.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def registered_domain(host: str) -> str:
    """`ibm.com` for `almaden.ibm.com`; "" for what has no registered domain: an address, a bare suffix."""
    return _extract()(host).top_domain_under_public_suffix
