"""Which character set a body is in: what it says, what it is, and which of the two is used.

Said: a byte order mark, else the header, else `<meta>` in the first 1,024 bytes (or the XML declaration),
with the labels of the WHATWG standard. A body that is valid UTF-8 (or ASCII) is UTF-8, whatever it says, and
no detector is asked: text in another character set is practically never valid UTF-8.

All others are detected too, by two judges. uchardet (`cchardet`) proposes; it is nearly always right about
East Asian character sets, and often about the others. Then each single-byte character set is tried: first how
its letters stand together (a capital inside of a word, a sign between letters, two alphabets in one word are
signs of a wrong reading), and of the best few CLD2 says which is most like a language. On the tests' texts of
some 200 characters in 99 languages both language and text come out right for nearly every legacy character
set, where uchardet alone misreads one in three. A declared character set that reads well is left in peace.
(002, section 3.2: language and encoding are identified together, and shown beside the defined character set.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import cchardet

from gcs.native import compiled, is_compiled
from gcs.summary import language
from gcs.summary.labels import CODECS, UTF_8, WINDOWS_1252, canonical_name
from gcs.summary.markup import without_markup

ASCII: Final = "us-ascii"

_PRESCAN_BYTES = 1024
_SAMPLE_BYTES = 3000
_LOOKED_AT_BYTES = 1 << 18
_JUDGED = 6
_BOMS = ((b"\xef\xbb\xbf", UTF_8), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
_META = re.compile(
    rb"<(?:!--(?:-?+>|.*?-->)|meta(?=[\t\n\f\r />])((?:[^>\"']|\"[^\"]*+\"|'[^']*+')*+)>)",
    re.IGNORECASE | re.DOTALL,
)
_META_CHARSET = re.compile(
    rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*[\"']?[\t\n\f\r ]*([^\t\n\f\r \"';/>]+)", re.IGNORECASE
)
_XML_ENCODING = re.compile(rb"<\?xml[^>]*?[\t\n\f\r ]encoding[\t\n\f\r ]*=[\t\n\f\r ]*[\"']([^\"']+)[\"']")
_HIGH = bytes(range(0x80, 0x100))
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_SEVEN_BITS = frozenset({"iso-2022-jp"})
_MULTIBYTE = frozenset({"gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"})
# In the order in which they win a tie.
_SINGLE_BYTE = (
    *(f"windows-{page}" for page in (1252, 1250, 1251, 1254, 1253, 1255, 1256, 1257, 1258, 874)),
    *(f"iso-8859-{part}" for part in (2, 5, 6, 7, 8)),
    *("koi8-r", "koi8-u"),
    *(f"iso-8859-{part}" for part in (15, 13, 4, 3, 10, 14, 16)),
    *("ibm866", "macintosh", "x-mac-cyrillic"),
)
_RARE = frozenset(f"iso-8859-{part}" for part in (3, 4, 10, 13, 14, 16)) | {"macintosh"}
# uchardet's names that the standard does not have.
_OTHER_NAMES = {"uhc": "euc-kr", "cp949": "euc-kr", "mac-cyrillic": "x-mac-cyrillic", "cp932": "shift_jis"}
# CLD2 knows these by their alphabet alone, so that any bytes read as one of them look right to it.
_BY_ALPHABET = {
    "el": frozenset({"windows-1253", "iso-8859-7"}),
    "th": frozenset({"windows-874"}),
    "he": frozenset({"windows-1255", "iso-8859-8", "iso-8859-8-i"}),
}
_JIS = re.compile(rb"\x1b\$[@B]|\x1b\([JI]")


class Charset(NamedTuple):
    """The character set that a body is read in, the one it declares and the one it was found to be in."""

    used: str
    declared: str
    detected: str


UNKNOWN: Final = Charset("", "", "")


class Decoded(NamedTuple):
    """A body as UTF-8, and what it was."""

    utf8: bytes
    charset: Charset


def decode(
    body: bytes, label: str = "", *, markup: bool = True, domain: str = "", believed: bool = False
) -> Decoded:
    """A body in UTF-8; never raises: what cannot be read becomes U+FFFD.

    `label` is that of the header; `markup` says whether tags may declare it; `domain` hints at the language.
    What is declared is `believed` without a look by those who want the links and not the text; whether UTF-8
    was right they see by the links.
    """
    plain_ascii = body.isascii() and b"\0" not in body and b"\x1b" not in body
    if not plain_ascii:
        for mark, name in _BOMS:
            if body.startswith(mark):
                return _read(body[len(mark) :], Charset(name, name, name))
    declared = canonical_name(label) if label else ""
    declared = declared or _declared_inside(body[:_PRESCAN_BYTES], markup=markup)
    if plain_ascii:
        return Decoded(body, Charset(declared or UTF_8, declared, ASCII))
    if believed and declared == UTF_8 and b"\0" not in body:
        return Decoded(body, Charset(UTF_8, UTF_8, ""))
    if declared not in _SEVEN_BITS and _is_utf8(body):
        return Decoded(body, Charset(UTF_8, declared, UTF_8))
    if believed and declared:
        return _read(body, Charset(declared, declared, ""))
    detected = detect(body, declared=declared, domain=domain)
    return _read(body, Charset(detected or declared or WINDOWS_1252, declared, detected))


def _declared_inside(head: bytes, *, markup: bool) -> str:
    """The character set that the beginning of a page names, by the standard's prescan; "" for none."""
    if not markup:
        return ""
    if head.startswith(b"<?xml") and (found := _XML_ENCODING.match(head)):
        return _ascii_compatible(found[1])
    for attributes in _META.findall(head):
        if found := _META_CHARSET.search(attributes):
            return _ascii_compatible(found[1])
    return ""


def _ascii_compatible(label: bytes) -> str:
    """What was just read as ASCII cannot be UTF-16, so the standard takes that for UTF-8."""
    name = canonical_name(label.decode("latin-1"))
    return UTF_8 if name.startswith("utf-16") else name


def _is_utf8(body: bytes) -> bool:
    """Whether a body with a byte above 0x7f is UTF-8, but for a character that was cut off at its end."""
    end = utf8_end(body)
    if end < len(body):
        return end >= 0
    return b"\0" not in body and (b"\x1b" not in body or _JIS.search(body) is None)


def utf8_end_expressed(body: bytes) -> int:
    """How many bytes are whole characters of UTF-8, if all but the beginning of one at the end are; or -1."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.start >= len(body) - 3 and error.reason == "unexpected end of data"
        return error.start if is_cut else -1
    return len(body)


utf8_end = compiled.utf8_end if is_compiled else utf8_end_expressed


def _read(body: bytes, charset: Charset) -> Decoded:
    text = body.decode(CODECS[charset.used], "replace")
    return Decoded(text.encode("utf-8", "replace"), charset)


def detect(body: bytes, *, declared: str = "", domain: str = "") -> str:
    """The character set of a body that is not UTF-8: the declared one if that reads well; "" if unknown."""
    if b"\0" in body[:_SAMPLE_BYTES]:
        return _wide(body[:_SAMPLE_BYTES], declared)
    if _JIS.search(body) and _reads(body, "iso-2022-jp"):
        return "iso-2022-jp"
    if _is_nearly_utf8(body):
        return UTF_8
    sample = _sample(body)
    if declared and declared != UTF_8 and _reads(sample, declared) and _reads_well(sample, declared, domain):
        return declared
    guess = _proposed(sample)
    if guess in _MULTIBYTE and _reads(sample, guess):
        return guess
    return _best(sample, guess, declared, domain)


def _proposed(sample: bytes) -> str:
    name = cchardet.detect(sample)["encoding"] or ""
    return _OTHER_NAMES.get(name.lower()) or canonical_name(name)


def _wide(head: bytes, declared: str) -> str:
    """UTF-16 without a mark: the zeros of its ASCII characters are all in even or all in odd places."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) < 4 * min(even, odd) + 4:
        return declared
    return "utf-16be" if even > odd else "utf-16le"


def _is_nearly_utf8(body: bytes) -> bool:
    """UTF-8 with a few bad bytes, as pages put together from several sources have them."""
    text = body.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    return bad * 10 <= len(text.encode("utf-8")) - len(text) - 2 * bad


def _sample(body: bytes) -> bytes:
    """The text of a page around its first bytes that are not ASCII."""
    text = without_markup(body[:_LOOKED_AT_BYTES])
    first = _NOT_ASCII.search(text)
    start = max(0, first.start() - 200) if first else 0
    return text[start : start + _SAMPLE_BYTES]


def _reads(sample: bytes, name: str) -> bool:
    try:
        sample.decode(CODECS[name])
    except UnicodeDecodeError as error:
        return error.start >= len(sample) - 3
    return True


def _reads_well(sample: bytes, name: str, domain: str) -> bool:
    if name not in _MULTIBYTE and _oddities(sample, [name])[0] * 20 > _high_bytes(sample):
        return False
    text = sample.decode(CODECS[name], "replace")
    return language.identify(text, domain=domain, charset=name).confidence > 0.5


def _best(sample: bytes, guess: str, declared: str, domain: str) -> str:
    """The single-byte character set that reads best; one that was guessed or declared wins a tie."""
    first = guess if guess not in _RARE else ""
    names = list(dict.fromkeys(name for name in (declared, first, *_SINGLE_BYTE) if name in _SINGLE_BYTE))
    odd = dict(zip(names, _oddities(sample, names), strict=True))
    least = min(odd.values()) + _high_bytes(sample) // 20
    likely = sorted((name for name in names if odd[name] <= least), key=odd.__getitem__)
    best, best_score = "", 0.0
    seen: set[str] = set()
    for name in likely:
        text = sample.decode(CODECS[name], "replace")
        if text in seen or len(seen) >= _JUDGED:
            continue
        seen.add(text)
        found = language.identify(text, domain=domain)
        score = found.confidence * (found.score - 10 * odd[name])
        if found.code in _BY_ALPHABET and guess not in _BY_ALPHABET[found.code]:
            score /= 10
        if score > best_score * 1.02:
            best, best_score = name, score
    return best


def _high_bytes(sample: bytes) -> int:
    return len(sample) - len(sample.translate(None, _HIGH))


def _oddities(sample: bytes, names: Sequence[str]) -> list[int]:
    # Not before it is needed: it takes NumPy.
    from gcs.summary.oddities import oddities

    return oddities(sample, names)
