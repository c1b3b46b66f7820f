"""A user's words for a part of the URL tree: where it is, and where its children are cut.

    http://www.ibm.com/docs/ | K | T
    com | ibm | sun

A part is given as a URL or as host labels from right to left, cuts after bars with spaces around them. Both
take the form that they have in canonical URLs, or else no URL would ever be found in them.
"""

from __future__ import annotations

import re

from gcs.core.urls import HOST, PATH, Rejected, canonical, key

_BAR = re.compile(r"\s+\|(?=\s|\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def understood(line: str) -> tuple[str, list[str]]:
    """The prefix and the cuts that a line means; raises Rejected with what is wrong with it."""
    where, *cuts = [part.strip() for part in _BAR.split(line)]
    if any(_CONTROL.search(part) for part in (where, *cuts)):
        raise Rejected("a control character")
    if not all(cuts):
        raise Rejected("an empty cut")
    if "://" in where:
        return key(canonical(where)).removesuffix(PATH), [PATH + _segment(cut) for cut in cuts]
    labels = [label.strip() for label in where.replace(",", ".").split(".")]
    return "".join(HOST + _label(label) for label in labels if label), [HOST + _label(cut) for cut in cuts]


def _segment(text: str) -> str:
    """One segment of a path, as it stands in canonical URLs."""
    segment = canonical("http://h/" + text).removeprefix("http://h/")
    if not segment or any(mark in text for mark in "/\\?#"):
        raise Rejected(f"{text!r} is not one segment of a path")
    return segment


def _label(text: str) -> str:
    """One label of a host name, as it stands in canonical URLs."""
    if ":" in text:
        raise Rejected(
            f"{text!r} is not a label of a host name; give a scheme and a port as http://host:8080/"
        )
    try:
        label = canonical(f"http://{text}.h/").removeprefix("http://").removesuffix(".h/")
    except Rejected:
        label = ""
    if not label or any(mark in label for mark in "./"):
        raise Rejected(f"{text!r} is not a label of a host name")
    return label
