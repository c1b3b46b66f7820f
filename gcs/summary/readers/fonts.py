"""Fonts, by fontTools: their names, how many glyphs for which characters, weight and axes."""

from __future__ import annotations

import io
from typing import Final

from fontTools.ttLib import TTCollection, TTFont, TTLibError

from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document
from gcs.summary.records import Document, Link

_NAMES: Final = {
    "family": 1,
    "style": 2,
    "version": 5,
    "maker": 8,
    "designer": 9,
    "license": 13,
    "copyright": 0,
}
_FULL, _DESCRIPTION, _LICENSE_URL, _DESIGNER_URL = 4, 10, 14, 12
_PLANE: Final = 0x10000


def read(part: Part, _: Limits) -> Document:
    """What a font says of itself; raises Refused for what is none."""
    stream = io.BytesIO(part.body)
    count = 1
    try:
        if part.body.startswith(b"ttcf"):
            fonts = TTCollection(stream, lazy=True).fonts
            font, count = fonts[0], len(fonts)
        else:
            font = TTFont(stream, lazy=True)
        names = font["name"]
        said = {name: names.getDebugName(number) or "" for name, number in _NAMES.items()}
        characters = font.getBestCmap() or {}
        weight = font["OS/2"].usWeightClass if "OS/2" in font else None
        axes = [axis.axisTag for axis in font["fvar"].axes] if "fvar" in font else []
        glyphs = font["maxp"].numGlyphs
    except TTLibError as error:
        raise Refused(f"damaged: {error}") from None
    facts: dict[str, object] = {
        **said,
        "glyphs": glyphs,
        "characters": len(characters),
        "weight": weight,
        "axes": axes,
        "outlines": "CFF" if "CFF " in font or "CFF2" in font else "TrueType",
        "packing": font.flavor or "",
        "fonts": count,
        "sample": "".join(
            chr(each) for each in sorted(characters)[:200] if each < _PLANE and chr(each).isalpha()
        ),
    }
    links = [names.getDebugName(number) or "" for number in (_LICENSE_URL, _DESIGNER_URL)]
    return document(
        part,
        Said(
            title=names.getDebugName(_FULL) or said["family"],
            description=names.getDebugName(_DESCRIPTION) or "",
            links=[Link(href, kind="font") for href in links if href.startswith("http")],
            facts=facts,
        ),
    )
