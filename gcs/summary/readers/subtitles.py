"""Subtitles in files of their own (SubRip, WebVTT): what is said, and how long that takes."""

from __future__ import annotations

import re

from gcs.summary.limits import Limits
from gcs.summary.markup import plain, without_markup
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document

_TIMES = re.compile(r"(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})\s+-->\s+(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})")


def read(part: Part, _: Limits) -> Document:
    """What subtitles say."""
    text, charset = text_of(part)
    spoken: list[str] = []
    until_s, count = 0.0, 0
    is_spoken = False
    for line in text.splitlines():
        if found := _TIMES.match(line.strip()):
            hours, minutes, seconds, thousandths = (int(each or 0) for each in found.groups()[4:])
            until_s = max(until_s, hours * 3600 + minutes * 60 + seconds + thousandths / 1000)
            count, is_spoken = count + 1, True
        elif not line.strip():
            is_spoken = False
        elif is_spoken:
            spoken.append(plain(without_markup(line.encode(), b"")))
    said = Said(text=" ".join(spoken), charset=charset, facts={"cues": count, "duration_s": until_s})
    return document(part, said)
