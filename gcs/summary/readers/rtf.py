"""RTF: its words and groups, read one by one, as far as the text and what is said about it need it."""

from __future__ import annotations

import codecs
import re
from typing import Final

from gcs.summary.keywords import READ
from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, split_keywords
from gcs.summary.records import Document, Link

_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?[0-9]{1,10})? ?|((?:\\'[0-9a-fA-F]{2})+)|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_ABOUT: Final = frozenset({"title", "author", "subject", "keywords", "doccomm", "operator", "company"})
_SKIPPED: Final = frozenset(
    {
        *("fonttbl", "colortbl", "stylesheet", "pict", "object", "header", "footer", "listtable", "rsidtbl"),
        *("generator", "info", "themedata", "datastore", "latentstyles", "xmlnstbl", "listoverridetable"),
    }
)
_CHARACTERS: Final = {
    "par": "\n",
    "line": "\n",
    "tab": " ",
    "cell": " ",
    "row": "\n",
    "emdash": "—",
    "endash": "–",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "bullet": "•",
}
_LINK = re.compile(r'HYPERLINK\s+"([^"]+)"')
_DEEPEST: Final = 10_000


class _Group:
    """What holds in a group: where its text goes ("" is the document, None nowhere), and the Unicode skip."""

    __slots__ = ("into", "skip")

    def __init__(self, into: str | None, skip: int) -> None:
        self.into, self.skip = into, skip


class _Reader:
    """The state of reading."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {"": []}
        self.size = 0
        self._groups = [_Group("", 1)]
        self._codec = "cp1252"
        self._pending = 0
        self._is_optional = False

    def token(self, found: re.Match[bytes]) -> None:
        """Take in one token."""
        word, number, code, sign, brace, text = found.groups()
        group = self._groups[-1]
        if word:
            self._word(word.decode("ascii"), int(number) if number else None)
        elif brace == b"{":
            if len(self._groups) > _DEEPEST:
                raise Refused("nested too deep")
            self._groups.append(_Group(group.into, group.skip))
        elif brace:
            if len(self._groups) > 1:
                self._groups.pop()
        elif code:
            self._codes(bytes.fromhex(code.replace(b"\\'", b"").decode("ascii")))
        elif sign == b"*":
            self._is_optional = True
        elif sign:
            self._text(
                {b"~": "\u00a0", b"_": "-"}.get(sign, sign.decode("latin-1") if sign in b"\\{}" else "")
            )
        elif text:
            self._text(text.decode(self._codec, "replace"))

    def _word(self, word: str, number: int | None) -> None:
        group = self._groups[-1]
        optional, self._is_optional = self._is_optional, False
        if word == "ansicpg" and number:
            self._codec = _codec(number)
        elif word == "uc" and number is not None:
            group.skip = min(max(number, 0), 8)
        elif word == "u" and number is not None:
            # What is beyond the first plane comes in two halves.
            self._text(chr(number % 0x10000), is_unicode=True)
            self._pending = group.skip
        elif word == "fldinst":
            group.into = "field"
        elif word in _ABOUT:
            group.into = word
        elif word in _SKIPPED or optional:
            group.into = None
        elif word in _CHARACTERS:
            self._text(_CHARACTERS[word])

    def _codes(self, codes: bytes) -> None:
        """Characters by their codes, of which some take two."""
        skipped = min(self._pending, len(codes))
        self._pending -= skipped
        self._text(codes[skipped:].decode(self._codec, "replace"))

    def _text(self, text: str, *, is_unicode: bool = False) -> None:
        if self._pending and not is_unicode:
            # What stands after a character in Unicode for readers that know none.
            skipped = min(self._pending, len(text))
            self._pending -= skipped
            text = text[skipped:]
        into = self._groups[-1].into
        if into is not None and text:
            self.texts.setdefault(into, []).append(text)
            self.size += len(text)


def _joined(parts: list[str]) -> str:
    """A text, with halves of characters put together, and those without the other half replaced."""
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _codec(number: int) -> str:
    name = {65001: "utf-8", 10000: "mac_roman"}.get(number, f"cp{number}")
    try:
        codecs.lookup(name)
    except LookupError:
        return "cp1252"
    return name


def read(part: Part, _: Limits) -> Document:
    """What a text says; raises Refused for what does not begin as RTF."""
    if not part.body.startswith(b"{\\rtf"):
        raise Refused("damaged: it does not begin as RTF does")
    reader = _Reader()
    for found in _TOKEN.finditer(part.body):
        reader.token(found)
        if reader.size > READ:
            break
    texts = {name: _joined(parts) for name, parts in reader.texts.items()}
    links = [Link(href, kind="office") for href in _LINK.findall(texts.get("field", ""))]
    facts = {
        "author": texts.get("author", ""),
        "subject": texts.get("subject", ""),
        "company": texts.get("company", ""),
    }
    return document(
        part,
        Said(
            title=texts.get("title", ""),
            text=texts[""],
            description=texts.get("doccomm", ""),
            keywords=split_keywords(texts.get("keywords", "")),
            links=links,
            facts=facts,
            refused="" if part.body.rstrip(b"\0\r\n\t ").endswith(b"}") else "truncated",
        ),
    )
