"""Small pictures of images: as `data:` URLs, bounded in pixels and bytes."""

from __future__ import annotations

import io
from base64 import b64encode
from contextlib import suppress
from typing import Final

from PIL import Image, UnidentifiedImageError

from gcs.summary.limits import Limits, Refused
from gcs.summary.records import MAX_THUMBNAIL

MAX_PIXELS: Final = 64_000_000
FORMATS: Final = (
    *("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "ICO", "AVIF", "JPEG2000", "PPM", "TGA", "PSD", "ICNS"),
)
"""What is read as an image. Others of Pillow's formats start programs, or hold anything."""
_COLOURS: Final = 5
_QUALITIES: Final = (60, 30, 10)


def opened(data: bytes) -> Image.Image:
    """An image, its pixels not read yet; raises Refused for what is none, and for one that is too large."""
    Image.MAX_IMAGE_PIXELS = None
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise Refused("damaged, or in a format that is not known here") from None
    if image.width * image.height > MAX_PIXELS:
        raise Refused(f"a bomb: an image of {image.width:,} × {image.height:,} pixels")
    return image


def thumbnail(image: Image.Image, limits: Limits) -> str:
    """A picture of an image, or nothing if none are wanted."""
    side = limits.thumbnail_px
    if not side:
        return ""
    small = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
    small.thumbnail((side, side))
    for quality in _QUALITIES:
        stream = io.BytesIO()
        small.save(stream, "WEBP", quality=quality)
        url = f"data:image/webp;base64,{b64encode(stream.getvalue()).decode()}"
        if len(url) <= MAX_THUMBNAIL:
            return url
    return ""


def thumbnail_of(data: bytes, limits: Limits) -> str:
    """A picture of an image in bytes; nothing if that cannot be read."""
    if not data or not limits.thumbnail_px:
        return ""
    with suppress(Exception):
        return thumbnail(opened(data), limits)
    return ""


def colours(image: Image.Image) -> list[str]:
    """The colours that most of an image is in, as in CSS, the most frequent first."""
    small = image.convert("RGB").resize((48, 48))
    reduced = small.quantize(_COLOURS)
    palette = reduced.getpalette() or []
    counted = sorted(reduced.getcolors() or [], reverse=True)
    found = [palette[3 * int(at) : 3 * int(at) + 3] for _, at in counted if isinstance(at, int)]
    return [
        f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in (each for each in found if len(each) == 3)
    ]
