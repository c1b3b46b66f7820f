"""Sound and film, by FFmpeg's demuxers: how long, which codecs, tags, the cover, and subtitles inside.

Only as much is decoded as FFmpeg needs to know the codecs. The demuxer is the one of the recognised format:
those that follow references to other files, as playlists do, are never used.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any, Final

import av

from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.pictures import thumbnail_of
from gcs.summary.readers.saying import Said, document
from gcs.summary.records import Document, Link

_DEMUXERS: Final = {
    "audio/mpeg": "mp3",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/x-wav": "wav",
    "audio/x-aiff": "aiff",
    "audio/aiff": "aiff",
    "audio/mp4": "mov",
    "video/mp4": "mov",
    "video/quicktime": "mov",
    "video/3gpp": "mov",
    "audio/ogg": "ogg",
    "video/ogg": "ogg",
    "application/ogg": "ogg",
    "audio/amr": "amr",
    "audio/ac3": "ac3",
    "video/webm": "matroska",
    "audio/webm": "matroska",
    "video/x-matroska": "matroska",
    "audio/x-matroska": "matroska",
    "video/x-msvideo": "avi",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/mp2t": "mpegts",
    "video/x-ms-wmv": "asf",
    "audio/x-ms-wma": "asf",
    "video/x-ms-asf": "asf",
}
_TAGS: Final = (
    "artist",
    "album",
    "album_artist",
    "date",
    "genre",
    "track",
    "composer",
    "encoder",
    "copyright",
)
_TEXT_CODECS: Final = frozenset({"subrip", "webvtt", "text", "mov_text", "ass"})
_PACKETS: Final = 2_000
_SPOKEN: Final = 20_000


def read(part: Part, limits: Limits) -> Document:
    """What a recording says; raises Refused for a format that is not known, and av's errors."""
    demuxer = _DEMUXERS.get(part.media_type)
    if demuxer is None:
        raise Refused(f"{part.media_type} is not read")
    opened = av.open(io.BytesIO(part.body), "r", format=demuxer, options={"protocol_whitelist": "none"})
    with opened as file:
        tags = {name.lower(): value for name, value in file.metadata.items()}
        videos = [each for each in file.streams.video if not _is_cover(each)]
        audios, subtitles = list(file.streams.audio), list(file.streams.subtitles)
        for stream in (*audios, *videos):
            for name, value in stream.metadata.items():
                tags.setdefault(name.lower(), value)
        duration_s = round(file.duration / av.time_base, 3) if file.duration else None
        facts: dict[str, object] = {
            "duration_s": duration_s if duration_s and duration_s > 0 else None,
            "bit_rate": file.bit_rate or None,
            "audio": [_audio(each) for each in audios],
            "video": [_video(each) for each in videos],
            "subtitles": [f"{_codec(each)} {each.metadata.get('language', '')}" for each in subtitles],
            "chapters": [str(each["metadata"].get("title", "")) for each in file.chapters()],
            **{name: tags.get(name, "") for name in _TAGS},
        }
        if videos:
            facts |= {"width": videos[0].width, "height": videos[0].height}
        cover = _cover(file) if part.level != "links" else b""
        spoken = _spoken(file, subtitles) if subtitles and part.level != "links" else ""
    if not (audios or videos or subtitles):
        raise Refused("damaged: there is no sound and no picture in it")
    said = Said(
        title=tags.get("title", ""),
        text=spoken,
        description=tags.get("comment", "") or tags.get("description", ""),
        links=[Link(value, name, kind="tag") for name, value in tags.items() if value.startswith("http")],
        language=next((each.metadata.get("language", "") for each in audios), ""),
        facts=facts,
        thumbnail=thumbnail_of(cover, limits),
    )
    return document(part, said)


def _codec(stream: Any) -> str:
    return str(stream.codec_context.codec.canonical_name)


def _audio(stream: Any) -> str:
    return f"{_codec(stream)} {stream.rate or 0} Hz {stream.channels} channels"


def _video(stream: Any) -> str:
    rate = f" {float(stream.average_rate):.3g}/s" if stream.average_rate else ""
    return f"{_codec(stream)} {stream.width}×{stream.height}{rate}"


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _cover(file: Any) -> bytes:
    """The picture that comes with a recording: as a stream of one packet, or attached."""
    for stream in file.streams.video:
        if _is_cover(stream):
            with suppress(av.FFmpegError):
                packet = next(iter(file.demux(stream)), None)
                file.seek(0)
                if packet is not None:
                    return bytes(packet)
    for stream in file.streams.attachments:
        if (stream.mimetype or "").startswith("image/"):
            return bytes(stream.data)
    return b""


def _spoken(file: Any, subtitles: list[Any]) -> str:
    """What the first subtitles say, as far as they are texts."""
    texts = [each for each in subtitles if _codec(each) in _TEXT_CODECS]
    lines: list[str] = []
    if texts:
        with suppress(av.FFmpegError):
            file.seek(0)
            for number, packet in enumerate(file.demux(texts[0])):
                lines.append(_words(bytes(packet), _codec(texts[0])))
                if number > _PACKETS or sum(map(len, lines)) > _SPOKEN:
                    break
    return " ".join(filter(None, lines))


def _words(data: bytes, codec: str) -> str:
    if codec == "mov_text":
        data = data[2 : 2 + int.from_bytes(data[:2], "big")]
    text = data.decode("utf-8", "replace")
    return text.split(",", 8)[-1].replace("\\N", " ") if codec == "ass" else text
