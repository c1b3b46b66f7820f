"""Mail: the messages of a box, and the attachments of a message; the text of a message is its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Final

from gcs.summary.limits import Budget
from gcs.summary.plugins import Part

_BEGINS = re.compile(rb"(?:\A|\n)(From [^\n]{3,300}\n)(?=[!-9;-~]+:)")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEADER: Final = 4_096


class _Policy(EmailPolicy):
    """Headers are read as they should be, but only the beginning of those without end: that takes long."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """A header's name and value."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_HEADER]


_POLICY: Final = _Policy(raise_on_defect=False)


def message_of(body: bytes) -> EmailMessage:
    """A message, read as leniently as `email` reads."""
    return message_from_bytes(body, policy=_POLICY)  # type: ignore[arg-type] # it makes messages of this class


def messages(body: bytes) -> Iterator[bytes]:
    """The messages of a box in mbox format."""
    begins = list(_BEGINS.finditer(body))
    for number, begun in enumerate(begins):
        end = begins[number + 1].start() if number + 1 < len(begins) else len(body)
        yield _QUOTED.sub(rb"\1", body[begun.end() : end])


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """The messages of a box, by their numbers."""
    for number, message in enumerate(messages(part.body), 1):
        budget.take(len(message))
        yield Part(message, f"{number}.eml", "message/rfc822")


def expand_message(part: Part, budget: Budget) -> Iterator[Part]:
    """The attachments of a message; another message is one of them."""
    message = message_of(part.body)
    for number, each in enumerate(message.iter_attachments(), 1):
        data = _bytes_of(each)
        budget.take(len(data))
        media_type, charset = each.get_content_type(), each.get_content_charset("")
        ending = ".eml" if media_type == "message/rfc822" else ""
        declared = f"{media_type}; charset={charset}" if charset else media_type
        yield Part(data, each.get_filename() or f"{number}{ending}", declared)


def _bytes_of(attachment: EmailMessage) -> bytes:
    if attachment.get_content_type() == "message/rfc822":
        inner = attachment.get_payload(0)
        return inner.as_bytes() if isinstance(inner, EmailMessage) else b""
    data = attachment.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""
