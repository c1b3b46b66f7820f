"""Languages and pages by country for Google Earth: KML 2.2 (OGC 07-147r2).

A place mark for each country, whose size grows with the logarithm of its pages, and its languages in a table;
a line for each of the most frequent links between countries. All texts are escaped by the XML writer.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from xml.etree import ElementTree as ET

MEDIA_TYPE: Final = "application/vnd.google-earth.kml+xml"
NAMESPACE: Final = "http://www.opengis.net/kml/2.2"
MOST_LINKS: Final = 100
_ICON: Final = "http://maps.google.com/mapfiles/kml/shapes/shaded_dot.png"
_LARGEST: Final = 4.0
Row = Mapping[str, Any]


def written(crawl: str, at: float, countries: Sequence[Row], links: Sequence[Row]) -> bytes:
    """The document of a crawl, from what `Found.countries` gives."""
    root = ET.Element("kml", xmlns=NAMESPACE)
    document = ET.SubElement(root, "Document")
    _text(document, "name", f"GCS: languages and places of crawl {crawl}")
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    _text(document, "description", f"As of {when}.")
    _styles(document)
    most = max((each["pages"] for each in countries), default=1)
    folder = _folder(document, "Countries")
    for each in countries:
        _country(folder, each, most)
    places = {each["code"]: each for each in countries}
    folder = _folder(document, "Links between countries")
    drawn = [each for each in links if each["from"] != each["to"] and {each["from"], each["to"]} <= {*places}]
    for each in drawn[:MOST_LINKS]:
        _link(folder, each, places[each["from"]], places[each["to"]])
    ET.indent(root)
    made: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return made


def _styles(document: ET.Element) -> None:
    style = ET.SubElement(document, "Style", id="country")
    icon = ET.SubElement(style, "IconStyle")
    _text(icon, "color", "ffb5771f")
    _text(ET.SubElement(icon, "Icon"), "href", _ICON)
    style = ET.SubElement(document, "Style", id="link")
    line = ET.SubElement(style, "LineStyle")
    _text(line, "color", "99007fff")
    _text(line, "width", "1.5")


def _folder(document: ET.Element, name: str) -> ET.Element:
    folder = ET.SubElement(document, "Folder")
    _text(folder, "name", name)
    return folder


def _country(folder: ET.Element, country: Row, most: int) -> None:
    mark = ET.SubElement(folder, "Placemark", id=country["code"])
    _text(mark, "name", country["name"])
    rows = "".join(
        f"<tr><td>{html.escape(each['language'] or 'unknown')}</td><td>{each['pages']:,}</td></tr>"
        for each in country["languages"]
    )
    counts = f"{country['pages']:,} pages, {country['bytes']:,} bytes"
    _text(mark, "description", f"<p>{counts}</p><table>{rows}</table>")
    _text(mark, "styleUrl", "#country")
    style = ET.SubElement(mark, "Style")
    scale = 0.5 + (_LARGEST - 0.5) * math.log1p(country["pages"]) / math.log1p(max(1, most))
    _text(ET.SubElement(style, "IconStyle"), "scale", f"{scale:.2f}")
    data = ET.SubElement(mark, "ExtendedData")
    for name in ("code", "pages", "bytes"):
        _datum(data, name, country[name])
    for each in country["languages"]:
        _datum(data, f"language {each['language'] or 'unknown'}", each["pages"])
    _text(ET.SubElement(mark, "Point"), "coordinates", _place(country))


def _link(folder: ET.Element, link: Row, a: Row, b: Row) -> None:
    mark = ET.SubElement(folder, "Placemark")
    _text(mark, "name", f"{a['name']} to {b['name']}: {link['links']:,} links")
    _text(mark, "styleUrl", "#link")
    line = ET.SubElement(mark, "LineString")
    _text(line, "tessellate", "1")
    _text(line, "coordinates", f"{_place(a)} {_place(b)}")


def _datum(data: ET.Element, name: str, value: object) -> None:
    _text(ET.SubElement(data, "Data", name=name), "value", str(value))


def _place(country: Row) -> str:
    return f"{country['longitude']},{country['latitude']},0"


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text
