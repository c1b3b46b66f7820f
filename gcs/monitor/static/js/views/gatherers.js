// Who works: gatherers with what they do, who is fast for what, what they send each other, who helps, what happened.

import { fill, make, write } from "../dom.js";
import * as as from "../format.js";
import { HeatMap } from "../charts/heatmap.js";
import { scaleLegend } from "../charts/scale.js";
import { TimeSeries } from "../charts/timeseries.js";
import { since } from "../data/history.js";
import { Resource } from "../data/resource.js";
import { byName, distinct } from "../palette.js";
import { card, nothing } from "../parts/card.js";
import { choices } from "../parts/choices.js";
import { eventList } from "../parts/events.js";
import { gatherersTable } from "./gatherertable.js";
import { helpersTable } from "./helpertable.js";

const KINDS = [
  ["pages_per_s", "Pages/s"],
  ["queued", "Queue"],
  ["overhead_percent", "Overhead C"],
];
const SHOWN = {
  pages_per_s: { axis: as.mark, show: (value) => `${as.rate(value)}/s` },
  queued: { axis: as.mark, show: as.count },
  overhead_percent: { axis: (value) => `${as.mark(value)} %`, show: (value) => `${as.rate(value)} %` },
};
const SPAN_S = 1800;
const LINES = 8;

export default {
  name: "gatherers",
  title: "Gatherers and helpers",
  short: "Gatherers",
  icon: "M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-3 2-5 5-5s5 2 5 5M13 3.5a3 3 0 0 1 0 5.2M14 12.2c2.4.5 4 2.3 4 4.8",
  mount: (context) => new Gatherers(context),
};

class Gatherers {
  constructor(context) {
    this._context = context;
    this._kind = "pages_per_s";
    this._table = gatherersTable(context);
    this._load = make("div");
    this._rates = new HeatMap({
      label: "Pages per second by gatherer and site",
      tell: tellRate,
      scale: "column",
    });
    this._traffic = new HeatMap({
      label: "URLs sent by gatherer to gatherer",
      tell: tellTraffic,
      heads: true,
    });
    this._overhead = make("p", { class: "small soft" });
    this._helpers = helpersTable();
    this._events = make("div", {
      class: "log",
      tabIndex: 0,
      role: "group",
      "aria-label": "What happened",
    });
    this.element = this._laidOut();
    const { feed, history } = context;
    this._off = [
      feed.on("gatherers", () => this._showGatherers()),
      feed.on("events", () => this._showEvents()),
      history.onMore(() => this._showLoad()),
    ];
    this._resources = [
      this._resource("rates", "rates", this._ratesBox, (data) => this._showRates(data)),
      this._resource("traffic", "traffic", this._trafficBox, (data) => this._showTraffic(data)),
      this._resource("helpers", "helpers", null, ({ helpers }) => {
        this._helpers.rows = helpers;
      }),
    ];
    this._showGatherers();
    this._showEvents();
    this._showLoad();
  }

  _resource(path, version, box, show) {
    const fail = (sentence) => box && fill(box, nothing(sentence));
    return new Resource(this._context.feed, { path, version, show, fail });
  }

  _laidOut() {
    const kinds = choices("What is shown", KINDS, this._kind, (value) => {
      this._kind = value;
      this._showLoad();
    });
    this._ratesBox = make("div", {}, this._rates.element);
    this._trafficBox = make("div", {}, this._traffic.element);
    return make(
      "div",
      { class: "grid" },
      card(
        {
          title: "Gatherers",
          note: "T is the time that a gatherer needs for what it has; C is the share of its traffic that coordination takes.",
        },
        this._table.element,
      ),
      card(
        {
          title: "Load over time",
          wide: "half",
          tools: [kinds],
          note: "The last half hour; the busiest eight if there are more.",
        },
        this._load,
      ),
      card({ title: "Helpers", wide: "half" }, this._helpers.element),
      card(
        {
          title: "Who is fast for what",
          wide: "half",
          tools: [scaleLegend("slower", "faster")],
          note: "Sites from left to right, the heaviest first; each is compared by column. A line means never tried.",
        },
        this._ratesBox,
      ),
      card(
        {
          title: "What they send each other",
          wide: "half",
          tools: [scaleLegend("0", "most")],
          note: this._overhead,
        },
        this._trafficBox,
      ),
      card({ title: "Log of events" }, this._events),
    );
  }

  _showGatherers() {
    this._table.rows = [...this._context.feed.gatherers.values()];
  }

  _showEvents() {
    fill(this._events, eventList(this._context.feed.events));
  }

  _showLoad() {
    const series = this._context.history.series.recent;
    const names = Object.keys(series.gatherers);
    const last = (name) => series.gatherers[name][this._kind]?.findLast((value) => value !== null) ?? 0;
    const busiest = names
      .sort((one, two) => last(two) - last(one))
      .slice(0, LINES)
      .sort(byName);
    const key = `${this._kind} ${busiest.join()}`;
    if (key !== this._lines) {
      this._lines = key;
      this._chart?.end();
      this._chart = busiest.length ? this._loadChart(busiest) : null;
      fill(this._load, this._chart?.element ?? nothing("No gatherer has said anything yet."));
    }
    this._chart?.show(since(series, SPAN_S, ...busiest.map((name) => series.gatherers[name][this._kind])));
  }

  _loadChart(names) {
    const { axis, show } = SHOWN[this._kind];
    const dashes = [undefined, [8, 3], [3, 3], [10, 3, 2, 3]];
    const colours = distinct(this._context.owners, names);
    const lines = names.map((name, at) => {
      return { label: name, colour: colours[at], show, dash: dashes[at % dashes.length] };
    });
    const label = KINDS.find(([value]) => value === this._kind)[1];
    return new TimeSeries({ label: `${label} by gatherer`, lines, axis, height: 250 });
  }

  _showRates({ gatherers, sites }) {
    if (!sites.length) {
      fill(this._ratesBox, nothing("Rates are known when the first plan has been made."));
      return;
    }
    fill(this._ratesBox, this._rates.element);
    const order = gatherers.map((_, at) => at).sort((one, two) => byName(gatherers[one], gatherers[two]));
    this._rates.show({
      rows: order.map((at) => gatherers[at]),
      columns: sites.map((each) => each.site),
      values: order.map((at) => sites.map((site) => site.pages_per_s[at])),
      sites,
    });
  }

  _showTraffic(data) {
    const { gatherers, sent_urls: sent, overhead_percent_all: overhead } = data;
    const c = overhead === null ? "not known yet" : `${overhead.toFixed(2)} %`;
    write(
      this._overhead,
      `URLs passed on, by sender (rows) and receiver (columns). Communication overhead C of all: ${c}.`,
    );
    if (gatherers.length < 2) {
      fill(this._trafficBox, nothing("One gatherer alone sends nobody anything."));
      return;
    }
    fill(this._trafficBox, this._traffic.element);
    const values = sent.map((row, at) => row.map((value, to) => (at === to ? null : value)));
    this._traffic.show({ rows: gatherers, columns: gatherers, values, data });
  }

  end() {
    this._off.forEach((off) => off());
    this._resources.forEach((each) => each.end());
    this._chart?.end();
    this._rates.end();
    this._traffic.end();
  }
}

function tellRate(row, column, { rows, values, sites }) {
  const site = sites[column];
  const value = values[row][column];
  return [
    site.site,
    `${rows[row]}: ${value === null ? "never tried" : `${as.rate(value)} pages/s`}`,
    `owner ${site.owner || "nobody"}, weight ${as.count(site.weight)} URLs`,
  ];
}

function tellTraffic(row, column, { rows, columns, data }) {
  if (row === column) {
    const c = data.overhead_percent[row];
    return [
      rows[row],
      `sent ${as.size(data.sent_bytes[row])}, received ${as.size(data.received_bytes[row])}`,
      `C ${c?.toFixed(2) ?? as.NONE} %`,
    ];
  }
  return [
    `${rows[row]} to ${columns[column]}`,
    `${as.counted(data.sent_urls[row][column], "URL")} sent`,
    `${as.count(data.waiting_urls[row][column])} waiting`,
  ];
}
