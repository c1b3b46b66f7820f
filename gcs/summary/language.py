"""The language of a text, and how sure that is: `pycld2` (CLD2) on some hundred characters.

CLD2 knows 165 languages, and 400 characters tell as much as a page does. What a page or its address claims
(`lang`, the top-level domain, the character set) is given to it as a hint and never decides alone.
(002, section 3.2: the language identification module.)
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pycld2

SAMPLE: Final = 400
"""Characters of a text that are looked at."""

# CLD2 still has the codes that ISO 639 gave up, and codes of its own for writing systems.
_CODES: Final = {"iw": "he", "jw": "jv", "un": "", "sr-ME": "sr"}
_KNOWN: Final = frozenset(code for _, code in pycld2.LANGUAGES)
_SAID: Final = frozenset(_CODES.get(code, code) for code in _KNOWN if not code.startswith("xx")) - {""}
_OLD: Final = {"he": "iw", "jv": "jw", "nb": "no", "in": "id"}
_ENCODINGS: Final = {
    "shift_jis": "JAPANESE_SHIFT_JIS",
    "euc-jp": "JAPANESE_EUC_JP",
    "iso-2022-jp": "JAPANESE_JIS",
    "gbk": "GBK",
    "gb18030": "GB18030",
    "big5": "CHINESE_BIG5",
    "euc-kr": "KOREAN_EUC_KR",
}
# What CLD2 refuses to read: controls and the code points that are no characters.
_UNREADABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)


class Language(NamedTuple):
    """A language by its ISO 639 code ("" if unknown), how sure (0 to 1), and CLD2's own score of the text."""

    code: str
    confidence: float
    score: float = 0.0


UNKNOWN: Final = Language("", 0.0)


def is_code(text: str) -> bool:
    """Whether `identify` can say so."""
    return text in _SAID


def identify(text: str, *, domain: str = "", lang: str = "", charset: str = "") -> Language:
    """The language of a text; `domain` (top-level), `lang` and `charset` are hints.

    The confidence is the share of the text that is in the language, halved if CLD2 calls it unreliable.
    """
    sample = text[:SAMPLE]
    try:
        found = pycld2.detect(
            sample,
            isPlainText=True,
            hintTopLevelDomain=domain or None,
            hintLanguage=_hint(lang),
            hintEncoding=_ENCODINGS.get(charset),
        )
    except (pycld2.error, UnicodeError):
        readable = _UNREADABLE.sub(" ", sample)
        return (
            identify(readable, domain=domain, lang=lang, charset=charset) if readable != sample else UNKNOWN
        )
    reliable, _, ((_, code, percent, score), *_) = found
    code = _CODES.get(code, code)
    if not code or code.startswith("xx"):
        return UNKNOWN
    return Language(code, percent / 100 if reliable else percent / 200, score)


def _hint(lang: str) -> str | None:
    """A `lang` attribute as CLD2 knows it, or none: it raises an error for what it does not know."""
    if not lang:
        return None
    code = lang.strip().replace("_", "-").lower().partition("-")[0]
    code = _OLD.get(code, code)
    return code if code in _KNOWN else None
