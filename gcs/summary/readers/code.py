"""Source code, by the lexers of Pygments: its language, what it defines and imports, and its comments."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename, get_lexer_for_mimetype, guess_lexer
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from gcs.summary.limits import Limits
from gcs.summary.names import name_of
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, text_of
from gcs.summary.records import Document

_READ: Final = 128 << 10
_SAID: Final = ("Token.Comment.S", "Token.Comment.M", "Token.Literal.String.Doc")
_DEFINED: Final = ("Token.Name.Class", "Token.Name.Function")
_EDGES: Final = "\"'#/*!-;%{}= \t\r\n"


def read(part: Part, _: Limits) -> Document:
    """What a program says."""
    text, charset = text_of(part, most=_READ)
    name = unquote(name_of(part.url))
    lexer = _lexer(name, part.media_type, text)
    comments: list[str] = []
    defined: dict[str, int] = {}
    imported: dict[str, int] = {}
    for kind, value in lexer.get_tokens(text):
        name_of_kind = str(kind)
        if name_of_kind.startswith(_SAID):
            comments += filter(None, (line.strip(_EDGES) for line in value.splitlines()))
        elif name_of_kind.startswith(_DEFINED):
            defined[value] = 1
        elif name_of_kind.startswith("Token.Name.Namespace"):
            imported[value] = 1
    facts = {
        "programming_language": lexer.name,
        "lines": part.body.count(b"\n") + (not part.body.endswith(b"\n")),
        "defines": list(defined),
        "imports": list(imported),
    }
    said = " ".join(comments)
    return document(
        part, Said(title=name, text=said or text, keywords=list(defined)[:12], charset=charset, facts=facts)
    )


def _lexer(name: str, media_type: str, text: str) -> Lexer:
    try:
        return get_lexer_for_filename(name, text[:4096])
    except ClassNotFound:
        pass
    try:
        return get_lexer_for_mimetype(media_type)
    except ClassNotFound:
        return guess_lexer(text[:4096]) if text.startswith("#!") else TextLexer()
