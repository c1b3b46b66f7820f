"""Hosts, registered domains and countries of the nodes of a graph.

A domain is what the public suffix list says, a country that of the last label of a host's name (002); no
engine knows either. So the hosts are asked for once, their domains become a table, and the rest is joins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from ibis.expr.types import StringValue, Table

from gcs.core.countries import country_of
from gcs.domains import registered_domain
from gcs.graph.engine import Engine

NO_COUNTRY: Final = "-"
_HOST: Final = r"^[a-z][a-z0-9+.-]*://(\[[^\]]*\]|[^/:?#]*)"
_SCHEMA: Final = {"host": "string", "domain": "string", "country": "string"}
_AT_ONCE: Final = 100_000


def host_of(url: StringValue) -> StringValue:
    """The name, or the address, that a column of URLs begins with."""
    return url.re_extract(_HOST, 1)


def places(engine: Engine, urls: Table) -> Table:
    """The domain and the country of every host in a table of URLs (its column `url`)."""
    hosts = urls.select(host=host_of(urls.url)).distinct()
    directory, file = engine.scratch / "hosts", engine.scratch / "places.parquet"
    engine.write(hosts, directory)
    with pq.ParquetWriter(file, pa.schema([(name, pa.string()) for name in _SCHEMA])) as writer:
        for part in sorted(directory.glob("*.parquet")):
            for batch in pq.ParquetFile(part).iter_batches(_AT_ONCE):
                writer.write_table(_placed(batch.column("host").to_pylist()))
    return engine.read("places", [file], _SCHEMA)


def _placed(hosts: Iterable[str]) -> pa.Table:
    names = list(hosts)
    countries = (country_of(name.rpartition(".")[2]) for name in names)
    return pa.table(
        {
            "host": names,
            # An address, or a name without a suffix, stands for itself.
            "domain": [registered_domain(name) or name for name in names],
            "country": [each.code if each else NO_COUNTRY for each in countries],
        }
    )


def between(edges: Table, known: Table, what: str) -> Table:
    """How many edges lead from one domain, or country, to which: `source`, `target`, `edges`."""
    from_hosts, to_hosts = known.view(), known.view()
    hosts = (
        edges.select(from_host=host_of(edges.source), to_host=host_of(edges.target))
        .group_by(["from_host", "to_host"])
        .aggregate(edges=lambda each: each.count())
    )
    named = hosts.join(from_hosts, hosts.from_host == from_hosts.host).select(
        source=from_hosts[what], to_host=hosts.to_host, edges=hosts.edges
    )
    placed = named.join(to_hosts, named.to_host == to_hosts.host).select(
        named.source, target=to_hosts[what], edges=named.edges
    )
    return placed.group_by(["source", "target"]).aggregate(edges=placed.edges.sum().cast("int64"))
