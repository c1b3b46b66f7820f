"""Calendars (iCalendar): their events, when the first and the last is, and where."""

from __future__ import annotations

import re
from typing import Final

from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document, Link

_READ: Final = 32 << 20
_FOLDED = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r"([A-Za-z-]+)((?:;[^:\"]*(?:\"[^\"]*\"[^:\"]*)*)?):(.*)")
_ESCAPED = re.compile(r"\\([\\;,nN])")
_KINDS: Final = frozenset({"VEVENT", "VTODO", "VJOURNAL"})


def read(part: Part, _: Limits) -> Document:
    """What a calendar says; raises Refused for what is none."""
    text, charset = text_of(part, most=_READ)
    events: list[dict[str, str]] = []
    about: dict[str, str] = {}
    current: dict[str, str] | None = None
    depth = 0
    ended = False
    for line in _FOLDED.sub("", text).splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        name, value = found[1].upper(), found[3]
        if name == "BEGIN":
            depth += 1
            current = {"kind": value.upper()} if value.upper() in _KINDS else current
        elif name == "END":
            depth -= 1
            ended = ended or value.upper() == "VCALENDAR"
            if current is not None and value.upper() == current["kind"]:
                events.append(current)
                current = None
        elif current is not None:
            current.setdefault(name, _unescaped(value))
        else:
            about.setdefault(name, _unescaped(value))
    if not depth and not ended:
        raise Refused("damaged: no calendar")
    begins = sorted(each["DTSTART"] for each in events if each.get("DTSTART"))
    names = [each.get("SUMMARY", "") for each in events]
    words = [each.get(key, "") for each in events for key in ("SUMMARY", "LOCATION", "DESCRIPTION")]
    facts = {
        "events": len(events),
        "first": begins[0] if begins else "",
        "last": begins[-1] if begins else "",
        "places": list(dict.fromkeys(each["LOCATION"] for each in events if each.get("LOCATION"))),
        "made_by": about.get("PRODID", ""),
    }
    said = Said(
        title=about.get("X-WR-CALNAME", "") or about.get("NAME", "") or next(iter(names), ""),
        text="\n".join(filter(None, words)),
        description=about.get("X-WR-CALDESC", ""),
        headings=[(2, name) for name in names],
        links=[
            Link(each["URL"], each.get("SUMMARY", ""), kind="event") for each in events if each.get("URL")
        ],
        charset=charset,
        facts=facts,
        refused="" if ended else "truncated",
    )
    return document(part, said)


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)
