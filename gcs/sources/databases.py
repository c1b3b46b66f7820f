"""Databases: schemas, tables, and some rows of each as objects, by any URL of SQLAlchemy.

    db://shop/                      the database that the configuration calls `shop`: its schemas
    db://shop/public/               a schema: its tables and views
    db://shop/public/orders/        a table: its columns, and links to its first rows by primary key
    db://shop/public/orders/7       a row, as JSON

No URL has a password or an address in it: those are in the configuration. Nothing is ever written: only
`SELECT` is sent, in a transaction that may not write where the database knows such, and is rolled back in any
case. Every statement has a limit of rows, and of time where the database knows one. A database is asked one
thing at a time, each over a connection of its own. SQLAlchemy is imported only by a crawl that has databases.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import trio

from gcs.core.sources import after, names, spelt
from gcs.errors import ConfigError
from gcs.fetch.outcome import Failure, Outcome, Reason
from gcs.sources.answers import HTML, PIECE, Conditions, Entry, page, piece, response

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Engine, Row, Table

_SYSTEM: Final = frozenset(
    {"information_schema", "pg_catalog", "pg_toast", "performance_schema", "mysql", "sys"}
)
"""Schemas that no list has."""
_SHOWN: Final = 20
"""Rows of a table without a usable key, which its page shows itself."""
_MOST_TEXT: Final = 100_000
_REFUSED: Final = "42501"
_CANCELLED: Final = "57014"
"""SQLSTATEs of PostgreSQL and others: insufficient privilege, query cancelled (for its time)."""


_READERS: Final[Mapping[type, Callable[[str], object]]] = {int: int, str: str, UUID: UUID}
"""What reads the keys of rows in paths, by their kinds."""


class Missing(Exception):
    """There is no such schema, table or row."""


class Databases:
    """The databases of a configuration, by their names."""

    def __init__(
        self, addresses: Mapping[str, str], *, rows: int, timeout_s: float, max_body_bytes: int
    ) -> None:
        """The addresses are SQLAlchemy's; raises ConfigError for one that it does not understand."""
        self._databases = {
            name: _Database(name, address, rows, timeout_s, max_body_bytes)
            for name, address in addresses.items()
        }
        self._limits = {name: trio.CapacityLimiter(1) for name in addresses}

    async def fetch(self, url: str, _: Conditions) -> Outcome:
        """The answer to a canonical URL; when cancelled, the statement under way is left to end by itself."""
        name = url.split("/", 3)[2]
        database = self._databases.get(name)
        if database is None:
            return response(404)
        return await trio.to_thread.run_sync(
            database.answer, url, abandon_on_cancel=True, limiter=self._limits[name]
        )


class _Database:
    """One of them."""

    def __init__(self, name: str, address: str, rows: int, timeout_s: float, max_body_bytes: int) -> None:
        try:
            from sqlalchemy.engine import make_url
            from sqlalchemy.exc import ArgumentError
        except ImportError:
            raise ConfigError("sources.databases needs SQLAlchemy: pip install 'gcs[databases]'.") from None
        try:
            self._url = make_url(address)
            self._engine = self._made(timeout_s)
        except (ArgumentError, ImportError) as error:
            raise ConfigError(f"sources.databases: {name} cannot be used: {error}.") from None
        except (ValueError, TypeError):
            raise ConfigError(
                f"sources.databases: {name} cannot be used: its address is not understood."
            ) from None
        self._max_body_bytes = max_body_bytes
        self._name, self._rows, self._timeout_s = name, rows, timeout_s

    def _made(self, timeout_s: float) -> Engine:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self._url.get_backend_name() == "sqlite":
            # A database that is not there must not be made, nor one that is there be changed.
            place = f"file:{spelt(str(self._url.database).encode()).replace('%2F', '/')}?mode=ro"

            def connect() -> sqlite3.Connection:
                made = sqlite3.connect(place, uri=True, check_same_thread=False)
                until = time.monotonic() + timeout_s
                made.set_progress_handler(lambda: time.monotonic() > until, 10_000)
                return made

            return create_engine("sqlite://", creator=connect, poolclass=NullPool)
        return create_engine(self._url, poolclass=NullPool)

    def answer(self, url: str) -> Outcome:
        """The answer to a canonical URL, at once."""
        from sqlalchemy import exc

        try:
            connection = self._engine.connect()
        except exc.DBAPIError as error:
            return self._refused(error, is_connected=False)
        try:
            with connection:
                self._bound(connection)
                try:
                    return self._answer(connection, url)
                finally:
                    connection.rollback()
        except (Missing, exc.NoSuchTableError, UnicodeDecodeError, OverflowError):
            return response(404)
        except exc.DBAPIError as error:
            return self._refused(error, is_connected=not error.connection_invalidated)
        except (exc.SQLAlchemyError, ValueError, TypeError, ArithmeticError):
            return response(500)  # something stands there that its column cannot have

    def _bound(self, connection: Connection) -> None:
        """Let a transaction write nothing, and its statements not take too long, where that can be said."""
        from sqlalchemy import text

        dialect, limit_ms = connection.dialect, round(self._timeout_s * 1000)
        kind = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
        said = {
            "postgresql": ["SET TRANSACTION READ ONLY", f"SET LOCAL statement_timeout = {limit_ms}"],
            "mysql": [f"SET SESSION max_execution_time = {limit_ms}", "START TRANSACTION READ ONLY"],
            "mariadb": [
                f"SET SESSION max_statement_time = {self._timeout_s}",
                "START TRANSACTION READ ONLY",
            ],
            "oracle": ["SET TRANSACTION READ ONLY"],
        }
        for statement in said.get(kind, []):
            connection.execute(text(statement))

    def _refused(self, error: Any, *, is_connected: bool) -> Outcome:
        """What it means that the database refuses; errors of drivers have their code in one of two places."""
        code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        if code == _REFUSED:
            return response(403)
        if code == _CANCELLED or str(error.orig) == "interrupted":
            return Failure(Reason.TIMEOUT, f"The database {self._name} took too long.")
        if code is None and not is_connected:
            # Nothing of what it says: the address may be in it.
            return Failure(Reason.CONNECT, f"The database {self._name} cannot be reached.")
        return response(500)

    def _answer(self, connection: Connection, url: str) -> Outcome:
        steps = [name.decode() for name in names(url)]
        since = after(url)
        if steps[-1] == "" and len(steps) == 1:
            return self._schemas(connection, since)
        if steps[-1] == "" and len(steps) == 2:
            return self._tables(connection, steps[0], since)
        if steps[-1] == "" and len(steps) == 3:
            return self._table(connection, steps[0], steps[1])
        if steps[-1] and len(steps) == 3:
            return self._row(connection, *steps)
        if steps[-1] and len(steps) < 3:
            return response(301, location=f"{url}/")
        raise Missing

    # What there is

    def _schemas(self, connection: Connection, since: bytes) -> Outcome:
        from sqlalchemy import inspect

        found = [each for each in inspect(connection).get_schema_names() if each not in _SYSTEM]
        return _listed(self._name, [each for each in found if not each.startswith("pg_")], since)

    def _tables(self, connection: Connection, schema: str, since: bytes) -> Outcome:
        from sqlalchemy import inspect

        inspector = inspect(connection)
        if schema not in inspector.get_schema_names():
            raise Missing
        found = {*inspector.get_table_names(schema), *inspector.get_view_names(schema)}
        return _listed(f"{self._name}: {schema}", sorted(found), since)

    def _table(self, connection: Connection, schema: str, name: str) -> Outcome:
        from sqlalchemy import select

        table = _reflected(connection, schema, name)
        remarks = [f"Columns: {', '.join(f'{each.name} ({each.type})' for each in table.columns)}"]
        if table.comment:
            remarks.insert(0, table.comment)
        entries = _references(table)
        keys = _keys(table)
        if keys:
            rows = connection.execute(select(*keys).order_by(*keys).limit(self._rows)).all()
            segments = filter(_is_name, map(_segment, rows))
            entries += [Entry(f"./{spelt(each.encode())}", each) for each in segments]
        else:
            rows = connection.execute(select(*_bounded(table)).limit(min(self._rows, _SHOWN))).all()
            remarks += [_object(row).decode() for row in rows]
        return self._whole(page(f"{self._name}: {schema}.{name}", entries, remarks=remarks), HTML)

    def _row(self, connection: Connection, schema: str, name: str, segment: str) -> Outcome:
        from sqlalchemy import select

        table = _reflected(connection, schema, name)
        keys = _keys(table)
        values = _values(segment, keys)
        wanted = [key == value for key, value in zip(keys, values, strict=True)]
        row = connection.execute(select(*_bounded(table)).where(*wanted).limit(1)).first()
        if row is None:
            raise Missing
        return self._whole(_object(row), "application/json")

    def _whole(self, body: bytes, content_type: str) -> Outcome:
        """An answer, cut where it is too long: of what a column may have not all can be asked for in part."""
        cut = "length" if len(body) > self._max_body_bytes else ""
        return response(200, body[: self._max_body_bytes], content_type=content_type, truncated=cut)


def _listed(title: str, found: Sequence[str], since: bytes) -> Outcome:
    """A list of names, each of which has a list of its own."""
    ordered = sorted(each.encode() for each in found if _is_name(each))
    later = [each for each in ordered if each > since][: 4 * PIECE + 1]
    entries, more = piece(later)
    body = page(title, [Entry(f"./{spelt(each)}/", each.decode()) for each in entries], more=more)
    return response(200, body, content_type=HTML)


def _reflected(connection: Connection, schema: str, name: str) -> Table:
    """A table or view, as the database describes it; raises NoSuchTableError."""
    from sqlalchemy import MetaData, Table

    return Table(name, MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)


def _references(table: Table) -> list[Entry]:
    """The tables that a table refers to, as links."""
    found = dict.fromkeys(each.target_fullname for each in table.foreign_keys)
    links: dict[str, Entry] = {}
    for full in found:
        *schema, name, _ = full.split(".")
        href = (
            f"../../{spelt(schema[0].encode())}/{spelt(name.encode())}/"
            if schema
            else f"../{spelt(name.encode())}/"
        )
        links[href] = Entry(href, f"refers to {name}")
    return list(links.values())


def _keys(table: Table) -> list[Column[Any]]:
    """The columns of the primary key, if a URL can say what is in them."""
    keys = list(table.primary_key.columns)
    return keys if all(_reader(each) is not None for each in keys) else []


def _reader(column: Column[Any]) -> Callable[[str], object] | None:
    """What reads a value of a column; None if nothing does."""
    kind = _kind(column)
    return None if kind is None else _READERS.get(kind)


def _kind(column: Column[Any]) -> type | None:
    """What Python makes of the values of a column; None if that is not known."""
    try:
        return column.type.python_type
    except NotImplementedError:
        return None


def _segment(row: Row[Any]) -> str:
    """A row's key in a path: its value, or several as a list in JSON."""
    values = [str(each) for each in row]
    return values[0] if len(values) == 1 else json.dumps(values, ensure_ascii=False)


def _values(segment: str, keys: Sequence[Column[Any]]) -> Sequence[object]:
    """The values in a path; raises Missing for what can be none."""
    try:
        texts = [segment] if len(keys) == 1 else json.loads(segment)
        readers = [_reader(each) for each in keys]
        return [read(text) for read, text in zip(readers, texts, strict=True) if read is not None]
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        raise Missing from None


def _is_name(text: str) -> bool:
    """Whether a text can stand in a path."""
    return bool(text.strip(".")) and not set("/\0") & set(text)


def _bounded(table: Table) -> list[ColumnElement[Any]]:
    """The columns of a table; of long bytes only how many they are, and of long texts the beginning."""
    from sqlalchemy import Enum, String, func

    found: list[ColumnElement[Any]] = []
    for column in table.columns:
        if _kind(column) is bytes:
            found.append(func.length(column).label(f"{column.name} (bytes)"))
        elif isinstance(column.type, String) and not isinstance(column.type, Enum):
            found.append(func.substr(column, 1, _MOST_TEXT).label(column.name))
        else:
            found.append(column)
    return found


def _object(row: Row[Any]) -> bytes:
    """A row as JSON; what JSON has no word for as text."""
    return json.dumps(dict(row._mapping), ensure_ascii=False, default=str, indent=1).encode()
