"""Mail: who wrote it to whom, when and about what, and its text; of a box how many there are."""

from __future__ import annotations

from contextlib import suppress
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Final

from gcs.summary.expanders.mailboxes import message_of, messages
from gcs.summary.hypertext import read_full
from gcs.summary.limits import Limits, Refused
from gcs.summary.markup import plain, without_markup
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document
from gcs.summary.records import Document, Link

_FACTS: Final = ("from", "to", "cc", "message-id", "in-reply-to", "list-id", "reply-to")


def read(part: Part, _: Limits) -> Document:
    """What a message says."""
    message = message_of(part.body)
    if not message.keys():
        raise Refused("damaged: no message")
    text, links = _text(message)
    facts: dict[str, object] = {name.replace("-", "_"): _header(message, name) for name in _FACTS}
    facts["sent"] = _date(_header(message, "date"))
    facts["attachments"] = (
        each.get_filename() or each.get_content_type() for each in message.iter_attachments()
    )
    said = Said(title=_header(message, "subject"), text=text, links=links, facts=facts)
    return document(part, said)


def read_mbox(part: Part, limits: Limits) -> Document:
    """What a box says: the subjects and senders of its first messages."""
    subjects: list[str] = []
    senders: dict[str, int] = {}
    count = 0
    for body in messages(part.body):
        count += 1
        if count <= limits.members:
            message = message_of(body)
            subjects.append(_header(message, "subject"))
            senders[_header(message, "from")] = 1
    if not count:
        raise Refused("damaged: no messages")
    facts = {"messages": count, "senders": list(senders)}
    return document(
        part, Said(text="\n".join(subjects), headings=[(2, each) for each in subjects], facts=facts)
    )


def _header(message: EmailMessage, name: str) -> str:
    with suppress(Exception):
        return str(message.get(name, ""))
    return ""


def _date(text: str) -> str:
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(text).isoformat()
    return text


def _text(message: EmailMessage) -> tuple[str, list[Link]]:
    """The text of a message, and the links of its HTML."""
    links: list[Link] = []
    markup = message.get_body(("html",))
    text = ""
    if isinstance(markup, EmailMessage):
        data = _content(markup).encode("utf-8", "replace")
        links = read_full(data).links
        text = plain(without_markup(data))
    written = message.get_body(("plain",))
    return (_content(written) if isinstance(written, EmailMessage) else text), links


def _content(message: EmailMessage) -> str:
    try:
        return str(message.get_content())
    except (LookupError, KeyError, UnicodeError):
        data = message.get_payload(decode=True)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
