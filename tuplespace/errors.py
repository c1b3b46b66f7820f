"""Every exception that this library raises.

TupleSpaceError
├── TupleError           a tuple cannot be written: type, size, depth, number of fields
├── TemplateError        a template could only be answered by a scan, or is malformed
│   └── IndexMismatch    the tag's declared fields differ from those others use
├── Unavailable          the server did not answer in time; nothing was done
│   └── OutcomeUnknown   as above, but the request had been sent: done once, or not at all
├── LeaseLost            a lease ended before its commit; the tuples are the space's again
├── Fenced               a write carried an older token than one already seen
├── LeadershipLost       this holder's lease on an election has ended
├── SpaceFull            the server is at its memory limit; takes and commits still work
├── ServerError          the server refused a request (a full disk), or its answer makes no sense
│   └── AccessDenied     it refuses this user: the name, the password or the rights
├── Unreadable           what was replaced was no tuple
├── ClientClosed         the client was used after it was closed
└── EmbeddedError        the private server could not be started
"""

from __future__ import annotations


class TupleSpaceError(Exception):
    """What every error of this library is a kind of."""


class TupleError(TupleSpaceError, ValueError):
    """A tuple cannot be written as it is."""


class TemplateError(TupleSpaceError, ValueError):
    """A template is malformed or would need a scan."""


class IndexMismatch(TemplateError):
    """Two users of a space declare different fields of one tag."""


class Unavailable(TupleSpaceError):
    """The server did not answer within the client's timeout, and nothing was done."""


class OutcomeUnknown(Unavailable):
    """The request was sent, but its answer never came: it was done once or not at all."""


class LeaseLost(TupleSpaceError):
    """The lease ended before the commit, and the tuples were given back."""


class Fenced(TupleSpaceError):
    """A newer token than this write's was already seen."""


class LeadershipLost(TupleSpaceError):
    """The lease on the election has ended; another holder may act."""


class SpaceFull(TupleSpaceError):
    """The server is at its memory limit and takes no more tuples."""


class ServerError(TupleSpaceError):
    """The server refused a request, or answers what makes no sense."""


class AccessDenied(ServerError):
    """The server does not let this user in, or not do this: another name, password or rights are needed."""


class Unreadable(TupleSpaceError):
    """What stood in the space for a tuple was none; it is gone."""


class AddressError(TupleSpaceError, ValueError):
    """A server's address cannot be read."""


class ClientClosed(TupleSpaceError):
    """The client was used after its block was left."""


class EmbeddedError(TupleSpaceError):
    """The private server could not be started or found."""
