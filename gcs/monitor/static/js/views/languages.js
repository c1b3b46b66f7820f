// What the pages are written in, how their bytes are to be read, and which countries they come from.

import { fill, make, write } from "../dom.js";
import * as as from "../format.js";
import { Bars } from "../charts/bars.js";
import { HeatMap } from "../charts/heatmap.js";
import { scaleLegend } from "../charts/scale.js";
import { WorldMap } from "../charts/worldmap.js";
import { countryName, domain } from "../data/countries.js";
import { Resource } from "../data/resource.js";
import { byName } from "../palette.js";
import { card, nothing } from "../parts/card.js";
import { Table } from "../parts/table.js";

const WAYS = 16;
const MOST_CHARSETS = 14;
const LANGUAGES = new Intl.DisplayNames("en", { type: "language" });

export default {
  name: "languages",
  title: "Languages and places",
  short: "Languages",
  icon: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM2.5 10h15M10 2.5c5 5 5 10 0 15M10 2.5c-5 5-5 10 0 15",
  mount: (context) => new Languages(context),
};

class Languages {
  constructor({ feed }) {
    this._whose = "";
    this._note = make("p");
    this._bars = new Bars({ label: "Pages by language", most: 18, empty: "No page has been read yet." });
    this._charsets = new HeatMap({
      label: "Pages by declared and detected charset",
      tell: tellCharset,
      heads: true,
    });
    this._charsetBox = make("div", {}, this._charsets.element);
    this._agreement = make("p");
    this._select = make("select", { id: "whose", onchange: () => this._choose(this._select.value) });
    this._each = eachTable();
    this._map = new WorldMap({ tell: (code) => this._tellCountry(code) });
    this._countries = countriesTable();
    this._links = linksTable();
    this._elsewhere = new Bars({ label: "Pages outside country domains", most: 8, empty: "None." });
    this._trouble = make("div");
    this.element = this._laidOut();
    const fail = (sentence) => fill(this._trouble, make("p", { class: "notice" }, sentence));
    this._resources = [
      new Resource(feed, {
        path: "languages",
        version: "languages",
        show: (data) => this._showLanguages(data),
        fail,
      }),
      new Resource(feed, {
        path: "countries",
        version: "countries",
        show: (data) => this._showCountries(data),
        fail,
      }),
    ];
  }

  _laidOut() {
    const whose = make(
      "div",
      { class: "field inline" },
      make("label", { htmlFor: "whose" }, "Pages of"),
      this._select,
    );
    const kml = make(
      "a",
      { class: "button", href: "api/places.kml", download: "places.kml" },
      "KML for Google Earth",
    );
    return make(
      "div",
      {},
      this._trouble,
      make(
        "div",
        { class: "grid" },
        card(
          {
            title: "The world",
            tools: [scaleLegend("few pages", "many"), kml],
            note: "Pages by country domain, as their square root; lines are the strongest links between countries.",
          },
          this._map.element,
        ),
        card({ title: "Languages", wide: "half", tools: [whose], note: this._note }, this._bars.element),
        card(
          {
            title: "Declared and detected charset",
            wide: "half",
            tools: [scaleLegend("0", "most")],
            note: this._agreement,
          },
          this._charsetBox,
        ),
        card({ title: "By gatherer", wide: "two-thirds" }, this._each.element),
        card(
          { title: "Elsewhere", wide: "third", note: "Domains that belong to no country." },
          this._elsewhere.element,
        ),
        card({ title: "Countries", wide: "half" }, this._countries.element),
        card(
          { title: "Links between countries", wide: "half", note: "Estimated from one page in sixteen." },
          this._links.element,
        ),
      ),
    );
  }

  _showLanguages(data) {
    fill(this._trouble);
    this._data = data;
    const gatherers = [...data.gatherers].sort((one, two) => byName(one.name, two.name));
    const names = JSON.stringify(gatherers.map(({ id, name }) => [id, name]));
    if (names !== this._names) {
      this._names = names;
      const options = [["", "all gatherers"], ...gatherers.map(({ id, name }) => [id, name])];
      fill(
        this._select,
        options.map(([value, text]) => make("option", { value, selected: value === this._whose }, text)),
      );
    }
    this._each.rows = gatherers;
    this._choose(gatherers.some(({ id }) => id === this._whose) ? this._whose : "");
  }

  _choose(whose) {
    this._whose = whose;
    const part = whose ? this._data.gatherers.find(({ id }) => id === whose) : this._data;
    write(this._note, `${as.counted(part.pages, "page")} read by ${part.name ?? "all"}.`);
    this._bars.show(part.languages.map((each) => ({ name: languageName(each), value: each.pages })));
    this._showCharsets(part.charsets);
  }

  _showCharsets(pairs) {
    const total = sum(pairs);
    const differing = sum(
      pairs.filter(({ declared, detected }) => declared && detected && declared !== detected),
    );
    const silent = sum(pairs.filter(({ declared }) => !declared));
    const share = (pages) => as.percent(total ? pages / total : 0);
    write(
      this._agreement,
      `Rows as declared, columns as detected. ${share(silent)} of the pages declare none, ${share(differing)} declare another than is detected.`,
    );
    if (!total) {
      fill(this._charsetBox, nothing("No page has been read yet."));
      return;
    }
    fill(this._charsetBox, this._charsets.element);
    const rows = largest(pairs, "declared");
    const columns = largest(pairs, "detected");
    const found = new Map(pairs.map((each) => [`${each.declared}\n${each.detected}`, each.pages]));
    const values = rows.map((row) => columns.map((column) => found.get(`${row}\n${column}`) ?? 0));
    this._charsets.show({
      rows: rows.map((each) => each || "none"),
      columns: columns.map((each) => each || "unknown"),
      values,
    });
  }

  _showCountries({ countries, elsewhere, links }) {
    fill(this._trouble);
    this._byCode = new Map(countries.map((each) => [each.code, each]));
    const strongest = [...links]
      .filter(({ from, to }) => from !== to)
      .sort((one, two) => two.links - one.links);
    const most = strongest[0]?.links ?? 1;
    const point = (code) => [this._byCode.get(code).longitude, this._byCode.get(code).latitude];
    const drawn = strongest
      .filter(({ from, to }) => this._byCode.has(from) && this._byCode.has(to))
      .slice(0, WAYS)
      .map((each) => ({ from: point(each.from), to: point(each.to), share: each.links / most }));
    this._map.show(new Map(countries.map((each) => [each.code, each.pages])), drawn);
    this._countries.rows = countries;
    this._links.rows = strongest;
    this._elsewhere.show(elsewhere.map((each) => ({ name: domainName(each.domain), value: each.pages })));
  }

  _tellCountry(code) {
    const found = this._byCode?.get(code);
    if (!found) return [countryName(code), "no page yet"];
    const top = found.languages.slice(0, 3).map((each) => `${languageName(each)} ${as.count(each.pages)}`);
    return [
      found.name || countryName(code),
      `${as.counted(found.pages, "page")}, ${as.size(found.bytes)}`,
      top.join(", "),
    ];
  }

  end() {
    this._resources.forEach((each) => each.end());
    this._map.end();
    this._charsets.end();
  }
}

const sum = (rows) => rows.reduce((total, each) => total + each.pages, 0);

/** What stands for all that has no room of its own. */
const OTHER = "other";

const domainName = (name) => (name === "" ? "addresses" : name === OTHER ? "all others" : `.${name}`);

function languageName({ language }) {
  if (!language) return "not recognised";
  if (language === OTHER) return "all others";
  try {
    return LANGUAGES.of(language) ?? language;
  } catch {
    return language; // what a detector calls a language need not be a tag that browsers know
  }
}

function largest(pairs, side) {
  const totals = new Map();
  for (const each of pairs) totals.set(each[side], (totals.get(each[side]) ?? 0) + each.pages);
  return [...totals.keys()].sort((one, two) => totals.get(two) - totals.get(one)).slice(0, MOST_CHARSETS);
}

function tellCharset(row, column, { rows, columns, values }) {
  const pages = values[row][column] ?? 0;
  return [as.counted(pages, "page"), `declared ${rows[row]}`, `detected ${columns[column]}`];
}

function eachTable() {
  const top = (row) =>
    row.languages
      .slice(0, 4)
      .map((each) => `${languageName(each)} ${as.percent(each.pages / (row.pages || 1))}`);
  const apart = (row) =>
    sum(row.charsets.filter((each) => each.declared && each.declared !== each.detected)) / (row.pages || 1);
  return new Table({
    caption: "Languages by gatherer",
    sort: 0,
    descending: false,
    empty: "No gatherer has read a page yet.",
    columns: [
      { label: "Gatherer", head: true, value: (row) => row.name },
      { label: "Pages", end: true, value: (row) => row.pages, show: (row) => as.count(row.pages) },
      { label: "Languages", wide: true, value: (row) => top(row).join(", ") },
      { label: "Other charset", end: true, value: apart, show: (row) => as.percent(apart(row)) },
    ],
  });
}

function countriesTable() {
  return new Table({
    caption: "Countries",
    sort: 1,
    empty: "No page of a country's domain has been read yet.",
    columns: [
      {
        label: "Country",
        head: true,
        value: (row) => row.name || countryName(row.code),
        show: (row) => `${row.name || countryName(row.code)} (${domain(row.code)})`,
      },
      { label: "Pages", end: true, value: (row) => row.pages, show: (row) => as.count(row.pages) },
      { label: "Size", end: true, value: (row) => row.bytes, show: (row) => as.size(row.bytes) },
      { label: "Language", value: (row) => (row.languages[0] ? languageName(row.languages[0]) : null) },
    ],
  });
}

function linksTable() {
  return new Table({
    caption: "Links between countries",
    sort: 2,
    empty: "No link between two countries has been seen yet.",
    columns: [
      { label: "From", head: true, value: (row) => countryName(row.from) },
      { label: "To", value: (row) => countryName(row.to) },
      { label: "Links", end: true, value: (row) => row.links, show: (row) => as.count(row.links) },
    ],
  });
}
