"""Images: their size, what their EXIF data says, the colours they are in, and a small picture."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from PIL import ExifTags, Image

from gcs.summary.limits import Limits
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import colours, opened, thumbnail
from gcs.summary.readers.saying import Said, document
from gcs.summary.records import Document

_EXIF: Final = {
    "made_by": ("Make", "Model"),
    "taken_at": ("DateTimeOriginal", "DateTime"),
    "artist": ("Artist",),
    "copyright": ("Copyright",),
    "software": ("Software",),
    "exposure": ("ExposureTime",),
    "aperture": ("FNumber",),
    "iso": ("ISOSpeedRatings", "PhotographicSensitivity"),
    "focal_length": ("FocalLength",),
    "orientation": ("Orientation",),
}
_TOGETHER: Final = "made_by"


def read(part: Part, limits: Limits) -> Document:
    """What an image says; of one that is cut off what could be read before that."""
    with opened(part.body) as image:
        exif = _exif(image)
        title = str(exif.pop("title", ""))
        facts: dict[str, object] = {
            "width": image.width,
            "height": image.height,
            "kind": image.format or "",
            "mode": image.mode,
            "frames": getattr(image, "n_frames", 1),
            **exif,
        }
        picture, refused = "", ""
        try:
            if part.level != "links":
                image.draft("RGB", (512, 512))
                image.load()
                facts["colours"] = colours(image)
                picture = thumbnail(image, limits)
        except (OSError, SyntaxError, ValueError) as error:
            refused = "truncated" if "truncated" in str(error) else f"damaged: {error}"
        words = {name: _text(image.info.get(name) or "") for name in ("Title", "Description", "comment")}
    title = title or words["Title"]
    described = words["Description"] or words["comment"]
    said = Said(title=title, description=described, facts=facts, thumbnail=picture, refused=refused)
    return document(part, said)


def _exif(image: Image.Image) -> dict[str, object]:
    """What cameras and programs say of an image."""
    tags: dict[str, Any] = {}
    with suppress(Exception):
        found = image.getexif()
        tags = {ExifTags.TAGS.get(tag, ""): value for tag, value in found.items()}
        more = found.get_ifd(ExifTags.IFD.Exif)
        tags |= {ExifTags.TAGS.get(tag, ""): value for tag, value in more.items()}
        tags |= _place(found.get_ifd(ExifTags.IFD.GPSInfo))
    facts: dict[str, object] = {"title": _text(tags.get("ImageDescription", ""))}
    for name, sources in _EXIF.items():
        values = [tags[each] for each in sources if tags.get(each)]
        if name == _TOGETHER:
            facts[name] = " ".join(map(_text, values))
        elif values:
            facts[name] = _number(values[0])
    return facts | {name: tags[name] for name in ("latitude", "longitude") if name in tags}


def _place(gps: Mapping[int, Any]) -> dict[str, float]:
    """Where it was taken, in degrees."""
    named = {ExifTags.GPSTAGS.get(tag, ""): value for tag, value in gps.items()}
    place = {}
    for name, tag, negative in (("latitude", "GPSLatitude", "S"), ("longitude", "GPSLongitude", "W")):
        parts = named.get(tag)
        if parts and len(parts) == 3:
            degrees = float(parts[0]) + float(parts[1]) / 60 + float(parts[2]) / 3600
            place[name] = round(-degrees if named.get(f"{tag}Ref") == negative else degrees, 6)
    return place


def _text(value: object) -> str:
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip("\0 ")


def _number(value: object) -> object:
    if isinstance(value, int):
        return value
    with suppress(TypeError, ValueError, ZeroDivisionError):
        return round(float(value), 6)  # type: ignore[arg-type] # which may be a fraction of Pillow's
    return _text(value)
