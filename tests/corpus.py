"""One file of each format, made by libraries that write it; and what is broken, locked, or made to harm.

Every text below is about bees, so that all summaries can be asked about the same things: they link to LINK,
and where a format has one, the title is TITLE.
"""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import lzma
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Mapping
from email.message import EmailMessage
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any

import av
import docx
import numpy as np
import pptx
import py7zr
import pyarrow as pa
import pyarrow.parquet as pq
import xlsxwriter
import zstandard
from docx.opc.constants import RELATIONSHIP_TYPE
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fpdf import FPDF
from fpdf.enums import AccessPermission
from odf import dc, meta
from odf import text as odf_text
from odf.opendocument import OpenDocumentText
from PIL import Image
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

TITLE = "On bees"
LINK = "http://bees.test/honey"
TEXT = (
    "The honey bee carries pollen from flower to flower, and each honey bee of the hive serves the queen. "
    * 4
)
HTML = f"<title>{TITLE}</title><p>{TEXT}</p><a href='{LINK}'>honey</a>".encode()
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pdf": "application/pdf",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "doc": "application/msword",
        "odt": "application/vnd.oasis.opendocument.text",
        "rtf": "application/rtf",
        "epub": "application/epub+zip",
        "md": "text/markdown",
        "py": "text/x-python",
        "csv": "text/csv",
        "json": "application/json",
        "xml": "application/xml",
        "yaml": "application/yaml",
        "parquet": "application/vnd.apache.parquet",
        "rss": "application/rss+xml",
        "atom": "application/atom+xml",
        "eml": "message/rfc822",
        "mbox": "application/mbox",
        "ics": "text/calendar",
        "jpg": "image/jpeg",
        "png": "image/png",
        "svg": "image/svg+xml",
        "mp3": "audio/mpeg",
        "flac": "audio/flac",
        "mp4": "video/mp4",
        "mkv": "video/x-matroska",
        "vtt": "text/vtt",
        "ttf": "font/ttf",
        "woff2": "font/woff2",
        "zip": "application/zip",
        "jar": "application/java-archive",
        "tar": "application/x-tar",
        "tar.gz": "application/gzip",
        "tar.bz2": "application/x-bzip2",
        "tar.xz": "application/x-xz",
        "tar.zst": "application/zstd",
        "7z": "application/x-7z-compressed",
        "warc.gz": "application/warc",
    }
)
"""Endings, and the types that are to be recognised by content and name alone."""


@cache
def files() -> Mapping[str, bytes]:
    """A file for each ending."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # some libraries leave files open
        made = {name: make() for name, make in _MAKERS.items()}
        gc.collect()
    inner = {f"docs/bees.{name}": made[name] for name in ("pdf", "docx", "png")} | {"page.html": HTML}
    made["zip"] = zipped(inner)
    made["jar"] = zipped(
        {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n", "bees/Bee.class": b"\xca\xfe\xba\xbe"}
    )
    made["tar"] = tarred(inner)
    made["tar.gz"] = gzip.compress(made["tar"])
    made["tar.bz2"] = bz2.compress(made["tar"])
    made["tar.xz"] = lzma.compress(made["tar"])
    made["tar.zst"] = zstandard.compress(made["tar"])
    made["7z"] = sevenzipped(inner)
    assert made.keys() == NAMES.keys()
    return MappingProxyType(made)


def zipped(members: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP of some files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tarred(members: Mapping[str, bytes]) -> bytes:
    """A TAR of some files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def sevenzipped(members: Mapping[str, bytes], **options: Any) -> bytes:
    """A 7z of some files."""
    stream = io.BytesIO()
    with py7zr.SevenZipFile(stream, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(data, name)
    return stream.getvalue()


def pdf(**encryption: Any) -> bytes:
    """A PDF of two pages with an outline and a link."""
    made = FPDF()
    made.set_title(TITLE)
    made.set_author("A. Keeper")
    made.set_font("Helvetica", size=12)
    for number in (1, 2):
        made.add_page()
        made.start_section(f"Chapter {number}")
        made.write(8, TEXT)
        made.write(8, "honey", link=LINK)
    if encryption:
        made.set_encryption("owner", permissions=AccessPermission.none(), **encryption)
    return bytes(made.output())


def _docx() -> bytes:
    made = docx.Document()
    made.core_properties.title = TITLE
    made.core_properties.author = "A. Keeper"
    made.core_properties.keywords = "bees, honey"
    made.add_heading("The hive", 1)
    made.add_paragraph(TEXT)
    made.part.relate_to(LINK, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    return _saved(made)


def _saved(made: Any) -> bytes:
    stream = io.BytesIO()
    made.save(stream)
    return stream.getvalue()


def _xlsx() -> bytes:
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream, {"in_memory": True})
    book.set_properties({"title": TITLE, "author": "A. Keeper"})
    sheet = book.add_worksheet("Hives")
    for at, row in enumerate([("hive", "honey"), ("first hive of the garden", 12), ("second", 7)]):
        sheet.write_row(at, 0, row)
    sheet.write_url(5, 0, LINK)
    book.close()
    return stream.getvalue()


def _pptx() -> bytes:
    made = pptx.Presentation()
    made.core_properties.title = TITLE
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "The hive"
    frame = slide.placeholders[1].text_frame
    frame.text = TEXT
    run = frame.add_paragraph().add_run()
    run.text, run.hyperlink.address = "honey", LINK
    return _saved(made)


def _odt() -> bytes:
    made = OpenDocumentText()
    made.meta.addElement(dc.Title(text=TITLE))
    made.meta.addElement(meta.InitialCreator(text="A. Keeper"))
    made.text.addElement(odf_text.H(outlinelevel=1, text="The hive"))
    paragraph = odf_text.P(text=TEXT)
    paragraph.addElement(odf_text.A(href=LINK, text="honey"))
    made.text.addElement(paragraph)
    return _saved(made)


_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def compound(streams: Mapping[str, bytes]) -> bytes:
    """An OLE file of up to three streams, which no library writes: FAT, directory, the streams in a row."""
    fat, sectors = [_FAT, _END], b""
    entries = _entry("Root Entry", 5, child=1, start=_END)
    for number, (name, data) in enumerate(streams.items(), 1):
        padded = data.ljust(4096, b"\0") + bytes(-max(len(data), 4096) % 512)
        follows = number + 1 if number < len(streams) else _FREE
        entries += _entry(name, 2, right=follows, start=len(fat), size=len(padded))
        fat += [*range(len(fat) + 1, len(fat) + len(padded) // 512), _END]
        sectors += padded
    head = struct.pack(
        "<8s16xHHHHH6xIIIII", bytes.fromhex("d0cf11e0a1b11ae1"), 62, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096
    )
    head += struct.pack("<IIII110I", _END, 0, _END, 0, 0, *[_FREE] * 109)[: 512 - len(head)]
    table = struct.pack("<128I", *fat, *[_FREE] * (128 - len(fat)))
    return head + table + entries.ljust(512, b"\0") + sectors


def _entry(
    name: str, kind: int, *, right: int = _FREE, child: int = _FREE, start: int = 0, size: int = 0
) -> bytes:
    called = name.encode("utf-16-le").ljust(64, b"\0")
    return called + struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, kind, 1, _FREE, right, child, start, size)


def _doc() -> bytes:
    texts = [(number, text.encode() + b"\0") for number, text in ((2, TITLE), (4, "A. Keeper"))]
    values, places, at = b"", b"", 8 + 8 * len(texts)
    for number, text in texts:
        places += struct.pack("<II", number, at + len(values))
        values += struct.pack("<II", 0x1E, len(text)) + text + bytes(-len(text) % 4)
    section = struct.pack("<II", at + len(values), len(texts)) + places + values
    said = struct.pack("<HHI16xI16sI", 0xFFFE, 0, 0, 1, bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9"), 48)
    return compound({"WordDocument": b"", "\x05SummaryInformation": said + section})


def _rtf() -> bytes:
    link = rf'{{\field{{\*\fldinst HYPERLINK "{LINK}"}}{{\fldrslt honey}}}}'
    about = rf"{{\info{{\title {TITLE}}}{{\author A. Keeper}}}}"
    return (
        rf"{{\rtf1\ansi\ansicpg1252{{\fonttbl\f0 Arial;}}{about}{{\b bold}} \'e9t\'e9 \u12354?. "
        rf"{TEXT}\par {link}}}"
    ).encode()


def _epub() -> bytes:
    package = f"""<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata
        xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{TITLE}</dc:title>
        <dc:creator>A. Keeper</dc:creator><dc:language>en</dc:language></metadata><manifest>
        <item id="one" href="one.xhtml" media-type="application/xhtml+xml"/>
        <item id="c" href="c.png" properties="cover-image"/></manifest>
        <spine><itemref idref="one"/></spine></package>"""
    container = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
        version="1.0"><rootfiles><rootfile full-path="book/package.opf"/></rootfiles></container>"""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("book/package.opf", package)
        archive.writestr("book/one.xhtml", b"<html><h1>The hive</h1>" + HTML + b"</html>")
        archive.writestr("book/c.png", picture("PNG"))
    return stream.getvalue()


def _md() -> bytes:
    front, code = f"---\ntitle: {TITLE}\n---\n", "```python\npass\n```\n"
    return f"{front}\n# The hive\n\n{TEXT} See [honey]({LINK}).\n\n{code}".encode()


def _py() -> bytes:
    return f'"""{TEXT}"""\nimport hives\n\nclass Bee:\n    def fly(self):\n        pass\n'.encode()


def _csv() -> bytes:
    return b"hive;honey;since\nfirst;12.5;2001-02-03\nsecond;7;2002-03-04\n"


def _json() -> bytes:
    return json.dumps(
        {"title": TITLE, "text": TEXT, "see": LINK, "hives": [{"honey": 12}, {"honey": 7.5}]}
    ).encode()


def _xml() -> bytes:
    said = f"<title>{TITLE}</title><p see='x'>{TEXT}</p><see>{LINK}</see>"
    return f"<?xml version='1.0'?><bees>{said}</bees>".encode()


def _yaml() -> bytes:
    return f"title: {TITLE}\ntext: {TEXT}\nsee: {LINK}\nhives:\n- &a {{honey: 12}}\n- *a\n".encode()


def _parquet() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"hive": ["first hive", "second hive"], "honey": [12.5, 7.0]}), stream)
    return stream.getvalue()


def _rss() -> bytes:
    return (
        "<?xml version='1.0'?><rss version='2.0'><channel>"
        f"<title>{TITLE}</title><description>{TEXT}</description>"
        f"<item><title>Honey</title><link>{LINK}</link></item></channel></rss>"
    ).encode()


def _atom() -> bytes:
    return (
        f"<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>{TITLE}</title><entry><title>Honey"
        f"</title><link href='{LINK}'/><summary>{TEXT}</summary></entry></feed>"
    ).encode()


def message() -> EmailMessage:
    """A message with two bodies and an attachment."""
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = TITLE, "A. Keeper <a@bees.test>", "b@bees.test"
    made["Date"] = "Sat, 03 Feb 2001 04:05:06 +0000"
    made.set_content(TEXT)
    made.add_alternative(HTML.decode(), subtype="html")
    made.add_attachment(pdf(), maintype="application", subtype="pdf", filename="bees.pdf")
    return made


def _eml() -> bytes:
    return b"Received: from bees.test\n" + message().as_bytes()


def _mbox() -> bytes:
    each = b"From a@bees.test Sat Feb  3 04:05:06 2001\n" + message().as_bytes() + b"\n\n"
    return each + each


def _ics() -> bytes:
    lines = [
        *(
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:-//bees//test//EN",
            f"X-WR-CALNAME:{TITLE}",
            "BEGIN:VEVENT",
        ),
        *("DTSTART:20010203T040506Z", "SUMMARY:Honey\\, at", "  last", "LOCATION:The hive", f"URL:{LINK}"),
        *(f"DESCRIPTION:{TEXT}", "END:VEVENT", "END:VCALENDAR", ""),
    ]
    return "\r\n".join(lines).encode()


def picture(kind: str, **options: Any) -> bytes:
    """An image of two colours."""
    stream = io.BytesIO()
    image = Image.new("RGB", (320, 200), (250, 200, 20))
    image.paste((20, 20, 20), (0, 0, 320, 60))
    image.save(stream, kind, **options)
    return stream.getvalue()


def _jpg() -> bytes:
    exif = Image.Exif()
    exif[0x010E], exif[0x010F], exif[0x0110] = TITLE, "Apiary", "Lens 1"
    exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 30.0, 0.0), 3: "W", 4: (8.0, 15.0, 0.0)})
    return picture("JPEG", exif=exif)


def _png() -> bytes:
    return picture("PNG")


def _svg() -> bytes:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 30 20'><title>{TITLE}</title><a href='{LINK}'>"
        f"<rect fill='#fc2' width='9' height='9'/><text>{TEXT}</text></a></svg>"
    ).encode()


def _sound(kind: str, codec: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    with av.open(stream, "w", format=kind) as container:
        container.metadata.update({"title": TITLE, "artist": "A. Keeper"})
        voice: Any = container.add_stream(codec, rate=44_100, **options)
        cover: Any = None
        if kind == "mp3":
            cover = container.add_stream("png", rate=1)
            cover.width, cover.height, cover.pix_fmt = 32, 32, "rgb24"
            cover.disposition = av.stream.Disposition.attached_pic
        for number in range(20):
            samples = (np.sin(np.arange(1152) / 20 + number) * 9000).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            frame.sample_rate, frame.pts = 44_100, 1152 * number
            container.mux(voice.encode(frame))
        container.mux(voice.encode(None))
        if cover is not None:
            picture = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 200, np.uint8), format="rgb24")
            container.mux(cover.encode(picture))
            container.mux(cover.encode(None))
    return stream.getvalue()


_SUBTITLES = (
    b"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name\nStyle: Default\n\n[Events]\n"
    b"Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)


def _film(kind: str, codec: str) -> bytes:
    stream = io.BytesIO()
    with av.open(stream, "w", format=kind) as container:
        container.metadata["title"] = TITLE
        film: Any = container.add_stream(codec, rate=10)
        film.width, film.height, film.pix_fmt = 64, 48, "yuv420p"
        spoken: Any = None
        if kind == "matroska":
            spoken = container.add_stream("subrip")
            spoken.metadata["language"] = "eng"
            spoken.codec_context.subtitle_header = _SUBTITLES
        for number in range(10):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            container.mux(film.encode(frame))
        container.mux(film.encode(None))
        if spoken is not None:
            packet = av.Packet(TEXT.encode())
            packet.stream, packet.pts, packet.dts, packet.duration = spoken, 0, 0, 900
            packet.time_base = Fraction(1, 1000)
            container.mux(packet)
    return stream.getvalue()


def _vtt() -> bytes:
    return f"WEBVTT\n\n00:00.000 --> 00:04.500\n<b>{TEXT}</b>\n".encode()


def _font(flavor: str | None) -> bytes:
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "B"])
    builder.setupCharacterMap({ord("B"): "B"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((500, 0))
    pen.lineTo((250, 700))
    pen.closePath()
    builder.setupGlyf({".notdef": pen.glyph(), "B": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (600, 0), "B": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable(
        {"familyName": "Bee Sans", "styleName": "Regular", "fullName": TITLE, "licenseInfoURL": LINK}
    )
    builder.setupOS2(usWeightClass=500)
    builder.setupPost()
    builder.font.flavor = flavor
    return _saved(builder.font)


def _warc() -> bytes:
    stream = io.BytesIO()
    writer = WARCWriter(stream, gzip=True)
    headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
    writer.write_record(writer.create_warcinfo_record("bees.warc.gz", {"software": "bees"}))
    writer.write_record(
        writer.create_warc_record(
            "http://old.test/page", "response", payload=io.BytesIO(HTML), http_headers=headers
        )
    )
    return stream.getvalue()


_MAKERS: Mapping[str, Any] = {
    "pdf": pdf,
    "docx": _docx,
    "xlsx": _xlsx,
    "pptx": _pptx,
    "doc": _doc,
    "odt": _odt,
    "rtf": _rtf,
    "epub": _epub,
    "md": _md,
    "py": _py,
    "csv": _csv,
    "json": _json,
    "xml": _xml,
    "yaml": _yaml,
    "parquet": _parquet,
    "rss": _rss,
    "atom": _atom,
    "eml": _eml,
    "mbox": _mbox,
    "ics": _ics,
    "jpg": _jpg,
    "png": _png,
    "svg": _svg,
    "vtt": _vtt,
    "mp3": lambda: _sound("mp3", "libmp3lame"),
    "flac": lambda: _sound("flac", "flac"),
    "mp4": lambda: _film("mp4", "mpeg4"),
    "mkv": lambda: _film("matroska", "mpeg4"),
    "ttf": lambda: _font(None),
    "woff2": lambda: _font("woff2"),
    "warc.gz": _warc,
}


# What is broken, locked, or made to harm


def bomb(size_bytes: int = 64 << 20) -> bytes:
    """A ZIP that expands to a thousand times its size."""
    return zipped({"zeros": bytes(size_bytes)})


def nested(depth: int, *, name: str = "") -> bytes:
    """A ZIP in a ZIP in a ZIP."""
    made = zipped({"page.html": HTML})
    for number in range(depth):
        made = zipped({f"{name}{number}.zip": made})
    return made


def sparse_tar() -> bytes:
    """A TAR with a file that is mostly a hole of some gigabytes, and a small one behind it."""
    info = tarfile.TarInfo("hole")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"%011o\0%011o\0" % (0, 512)
    head[483:495] = b"%011o\0" % (1 << 32)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + bytes(512) + tarred({"small.txt": b"x"})


def overlapping() -> bytes:
    """A ZIP all of whose members are the same bytes, as those of the best bombs are."""
    made = zipped({"a": bytes(1 << 16)})
    at = made.index(b"PK\x01\x02")
    entry = made[at : made.index(b"PK\x05\x06")]
    entries = b"".join(entry[:46] + bytes([97 + number]) + entry[47:] for number in range(20))
    end = struct.pack("<4s4HIIH", b"PK\x05\x06", 0, 0, 20, 20, len(entries), at, 0)
    return made[:at] + entries + end


def locked_zip() -> bytes:
    """A ZIP whose only member says that it is encrypted."""
    made = bytearray(zipped({"secret.txt": b"x" * 100}))
    made[6] |= 1
    made[made.index(b"PK\x01\x02") + 8] |= 1
    return bytes(made)


def gif_and_zip() -> bytes:
    """An image that is an archive too."""
    return picture("GIF") + zipped({"page.html": HTML})
