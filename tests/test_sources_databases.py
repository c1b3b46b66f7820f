"""Databases as a source, by real ones: SQLite, and PostgreSQL where it is installed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
import sqlalchemy as sa

from gcs.core.sources import Reach
from gcs.core.urls import key
from gcs.errors import ConfigError
from gcs.fetch.outcome import Failure, Outcome, Reason, Response
from gcs.gatherer.links import Targets
from gcs.sources.answers import Conditions
from gcs.sources.databases import Databases
from gcs.store.store import Store
from tests import postgres
from tests.crawling import configured, crawl

ROWS = 25


def fill(engine: sa.Engine, schema: str | None) -> None:
    """Make tables of each kind, with some rows."""
    metadata = sa.MetaData(schema=schema)
    customers = sa.Table(
        "customers",
        metadata,
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("photo", sa.LargeBinary),
    )
    orders = sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer", sa.ForeignKey(customers.c.name)),
        sa.Column("price", sa.Numeric(8, 2)),
        sa.Column("at", sa.DateTime),
    )
    pairs = sa.Table(
        "pairs",
        metadata,
        *(sa.Column(name, sa.Integer, primary_key=True) for name in "ab"),
        sa.Column("c", sa.Text),
    )
    loose = sa.Table("loose ones", metadata, sa.Column("word", sa.Text))
    metadata.create_all(engine)
    with engine.begin() as connection:
        people = [{"name": name, "photo": b"x" * 1000} for name in ("ann", "b/ob", "çem", "..")]
        connection.execute(customers.insert(), people)
        connection.execute(
            orders.insert(), [{"id": n, "customer": "ann", "price": n + 0.5} for n in range(ROWS * 2)]
        )
        connection.execute(pairs.insert(), [{"a": 1, "b": n, "c": f"pair {n}"} for n in range(3)])
        connection.execute(loose.insert(), [{"word": f"word{n}"} for n in range(3)])


@pytest.fixture(scope="module")
def in_a_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a database in a file, which is filled."""
    address = f"sqlite:///{tmp_path_factory.mktemp('shop')}/my shop.db"
    engine = sa.create_engine(address)
    fill(engine, None)
    engine.dispose()
    return address


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of one that a PostgreSQL serves, for a superuser; `reader` may read all but `pairs`."""
    if postgres.binaries() is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    with postgres.postgres() as address:
        engine = sa.create_engine(address)
        fill(engine, "public")
        with engine.begin() as connection:
            for statement in (
                "CREATE ROLE reader LOGIN",
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
                "REVOKE ALL ON pairs FROM reader",
                "CREATE SCHEMA slow",
                "CREATE VIEW slow.words AS SELECT pg_sleep(600)::text AS word FROM generate_series(1, 3)",
            ):
                connection.execute(sa.text(statement))
        engine.dispose()
        yield address


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The address of a database that is filled, for somebody who may read, and its schema."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("in_a_file")), "main"
    return _as_reader(str(request.getfixturevalue("served"))), "public"


def _as_reader(address: str) -> str:
    return address.replace("super@", "reader@")


def ask(address: str, path: str, *, timeout_s: float = 60.0) -> Outcome:
    """What is answered for a path of the database."""
    database = Databases(
        {"shop": address}, rows=ROWS, timeout_s=timeout_s, max_body_bytes=1 << 20
    )._databases["shop"]
    try:
        return database.answer(f"db://shop/{path}")
    finally:
        database._engine.dispose()


def response(address: str, path: str) -> Response:
    """The same, of what is no failure."""
    found = ask(address, path)
    assert isinstance(found, Response), found
    return found


def linked(address: str, path: str) -> list[str]:
    """Where the links of a page lead, below the database."""
    body = response(address, path).body.decode()
    hrefs = [unescape(each) for each in re.findall(r'href="([^"]*)"', body)]
    found = Targets(reach=Reach(["db://shop"])).resolve(f"db://shop/{path}", hrefs)
    return [target.url.removeprefix("db://shop/") for target in found if target is not None]


def test_from_the_database_to_a_row(shop: tuple[str, str]) -> None:
    """A database lists its schemas, a schema its tables, a table its first rows, which are objects."""
    address, schema = shop
    assert f"{schema}/" in linked(address, "")
    tables = ["customers", "loose%20ones", "orders", "pairs"]
    assert linked(address, f"{schema}/") == [f"{schema}/{table}/" for table in tables]
    rows = [f"{schema}/orders/{number}" for number in range(ROWS)]
    assert linked(address, f"{schema}/orders/") == [f"{schema}/customers/", *rows]
    found = response(address, f"{schema}/orders/7")
    assert found.headers["content-type"] == "application/json"
    assert json.loads(found.body) == {"id": 7, "customer": "ann", "price": "7.50", "at": None}
    assert "id (INTEGER)" in response(address, f"{schema}/orders/").body.decode()


def test_keys_of_all_kinds(shop: tuple[str, str]) -> None:
    """Texts are keys too, if a path can have them; a table without a key shows some rows itself."""
    address, schema = shop
    assert sorted(linked(address, f"{schema}/customers/")) == [
        f"{schema}/customers/%C3%A7em",
        f"{schema}/customers/ann",
    ]
    customer = json.loads(response(address, f"{schema}/customers/%C3%A7em").body)
    assert customer == {"name": "çem", "photo (bytes)": 1000}
    assert "word1" in response(address, f"{schema}/loose%20ones/").body.decode()


def test_several_columns_as_a_key(in_a_file: str) -> None:
    """A key of several columns is one name in the path, which leads to its row."""
    found = linked(in_a_file, "main/pairs/")
    assert len(found) == 3
    assert json.loads(response(in_a_file, found[1]).body) == {"a": 1, "b": 1, "c": "pair 1"}


@pytest.mark.parametrize(
    "path",
    ["{}/nothing/", "nothing/", "{}/orders/99999", "{}/orders/x", "{}/orders/7/8", "{}/loose ones/7", "%FF/"],
)
def test_what_is_not_there(shop: tuple[str, str], path: str) -> None:
    """What the database does not have is not found, whatever a path says."""
    address, schema = shop
    assert response(address, path.format(schema)).status == 404


def test_names_without_a_slash(shop: tuple[str, str]) -> None:
    """A schema or a table without the slash at its end is a redirect."""
    address, schema = shop
    assert response(address, schema).headers["location"] == f"db://shop/{schema}/"


def test_injection_is_a_name(shop: tuple[str, str]) -> None:
    """What looks like SQL is taken for a name, and found nowhere."""
    address, schema = shop
    assert response(address, f"{schema}/customers/x'%20OR%20'1'='1").status == 404
    assert response(address, f"{schema}/customers%22;DROP%20TABLE%20orders;--/").status == 404
    assert response(address, f"{schema}/orders/7").status == 200


@pytest.mark.parametrize("kind", ["in_a_file", "served"])
def test_nothing_can_be_written(kind: str, request: pytest.FixtureRequest) -> None:
    """A statement that would write is refused by the database itself, also from somebody who might."""
    address = str(request.getfixturevalue(kind))
    database = Databases({"shop": address}, rows=1, timeout_s=60, max_body_bytes=1 << 20)._databases["shop"]
    with database._engine.connect() as connection:
        database._bound(connection)
        with pytest.raises(sa.exc.DBAPIError, match=r"read-only|readonly"):
            connection.execute(sa.text("DELETE FROM orders"))
    database._engine.dispose()


def test_permissions_and_limits(served: str) -> None:
    """A table that the user may not read is forbidden, and a statement that takes too long is ended."""
    assert response(_as_reader(served), "public/pairs/").status == 403
    found = ask(served, "slow/words/", timeout_s=0.5)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT


def test_limits_of_time_in_a_file(tmp_path: Path) -> None:
    """A statement that takes too long in SQLite is ended too."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/slow.db")
    with engine.begin() as connection:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) AS m FROM n"
        connection.execute(sa.text(f"CREATE VIEW endless AS {endless}"))
    engine.dispose()
    found = ask(f"sqlite:///{tmp_path}/slow.db", "main/endless/", timeout_s=0.3)
    assert isinstance(found, Failure)
    assert found.reason is Reason.TIMEOUT


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    """A database that cannot be reached is no answer at all; none is made in its place."""
    for address in (f"sqlite:///{tmp_path}/none.db", f"postgresql+psycopg://x@/x?host={tmp_path}"):
        found = ask(address, "")
        assert isinstance(found, Failure)
        assert found.reason is Reason.CONNECT
        assert str(tmp_path) not in found.detail
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_none() -> None:
    """An address that SQLAlchemy does not understand is refused without saying the password in it."""
    with pytest.raises(ConfigError, match="shop") as refused:
        Databases({"shop": "nosuch://user:secret@host/x"}, rows=1, timeout_s=1, max_body_bytes=1 << 20)
    assert "secret" not in str(refused.value)


async def test_a_crawl(shop: tuple[str, str], tmp_path: Path) -> None:
    """A crawl of a database summarises its tables and rows, one question at a time."""
    address, schema = shop
    (tmp_path / "hosts").touch()
    config = configured(
        tmp_path / "hosts", fetch={"delay_s": 1.0}, sources={"databases": (f"shop={address}",), "rows": ROWS}
    )
    await crawl(config, ["db://shop/"], tmp_path / "crawl")
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        rows = [store.get(key(f"db://shop/{schema}/orders/{number}")) for number in range(ROWS)]
        assert all(row is not None and row.status == 200 for row in rows)
        assert store.get(key(f"db://shop/{schema}/orders/{ROWS}")) is None
        assert store.counts().queued == 0


def test_values_that_python_cannot_have(tmp_path: Path) -> None:
    """What stands in a column that can be no such thing costs that row, and not the database."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/odd.db")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE odd (id INTEGER PRIMARY KEY, at DATETIME, big BLOB)"))
        connection.execute(sa.text("INSERT INTO odd VALUES (1, 'not a date', x'00'), (2, NULL, x'0001')"))
    engine.dispose()
    address = f"sqlite:///{tmp_path}/odd.db"
    assert json.loads(response(address, "main/odd/2").body) == {"id": 2, "at": None, "big (bytes)": 2}
    assert response(address, "main/odd/99999999999999999999999").status == 404
    assert response(address, "main/odd/1").status == 500


def test_long_rows_are_cut(tmp_path: Path) -> None:
    """An answer is no longer than a body may be, and says that it was cut."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/long.db")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE long (id INTEGER PRIMARY KEY, x JSON)"))
        said = json.dumps("x" * (2 << 20))
        connection.execute(sa.text("INSERT INTO long VALUES (1, :x)"), {"x": said})
    engine.dispose()
    found = response(f"sqlite:///{tmp_path}/long.db", "main/long/1")
    assert (len(found.body), found.truncated) == (1 << 20, "length")


async def test_another_database() -> None:
    """A name that the configuration does not have is not found."""
    none = Databases({}, rows=1, timeout_s=1, max_body_bytes=1 << 20)
    found = await none.fetch("db://other/", Conditions())
    assert isinstance(found, Response)
    assert found.status == 404
