// How the crawl is: the figures, how far it has come, what needs attention, and what came last.

import { fill, make } from "../dom.js";
import * as as from "../format.js";
import { TimeSeries } from "../charts/timeseries.js";
import { since } from "../data/history.js";
import { card, nothing } from "../parts/card.js";
import { choices } from "../parts/choices.js";
import { eventList } from "../parts/events.js";
import { Figure } from "../parts/figure.js";
import { PageList } from "../parts/pages.js";
import { ProgressBar } from "../parts/progress.js";

const SPARK_S = 600;
const SPANS = [
  ["600", "10 min"],
  ["3600", "1 h"],
  ["86400", "24 h"],
];

export default {
  name: "overview",
  title: "Overview",
  icon: "M3 16v-5h3v5M8.5 16V7h3v9M14 16V3h3v13",
  mount: (context) => new Overview(context),
};

class Overview {
  constructor({ feed, history }) {
    this._feed = feed;
    this._history = history;
    this._span = 600;
    this._figures = {
      pages: new Figure("Pages per second"),
      queue: new Figure("Queue"),
      bytes: new Figure("Received"),
      errors: new Figure("Errors"),
      who: new Figure("Gatherers", { spark: false }),
    };
    this._progress = new ProgressBar();
    this._alarms = make("div");
    this._events = make("div");
    this._pages = new PageList(6);
    this._speed = new TimeSeries({
      label: "Pages and errors per second",
      axis: as.mark,
      lines: [
        { label: "Pages", colour: "--accent", fill: true, show: (value) => `${as.rate(value)}/s` },
        { label: "Errors", colour: "#d55e00", dash: [5, 4], show: (value) => `${as.rate(value)}/s` },
      ],
    });
    this._queue = new TimeSeries({
      label: "URLs queued and done",
      axis: as.mark,
      lines: [
        { label: "Queued", colour: "#cc79a7", show: as.count },
        { label: "Done", colour: "#009e73", dash: [8, 3], show: as.count },
      ],
    });
    this.element = this._laidOut();
    this._off = [
      feed.on("overview", () => this._show()),
      feed.on("events", () => this._showEvents()),
      feed.on("pages", () => this._pages.show(feed.pages)),
      history.onMore(() => this._showHistory()),
    ];
    this._show();
    this._showEvents();
    this._showHistory();
    this._pages.show(feed.pages);
  }

  _laidOut() {
    const spans = choices("Time shown", SPANS, String(this._span), (value) => {
      this._span = Number(value);
      this._showHistory();
    });
    const figures = Object.values(this._figures).map((each) => each.element);
    return make(
      "div",
      {},
      make("dl", { class: "figures" }, figures),
      make(
        "div",
        { class: "grid" },
        card({ title: "Progress", wide: "two-thirds" }, this._progress.element),
        card({ title: "Needs attention", wide: "third" }, this._alarms),
        card({ title: "Speed", wide: "half", tools: [spans] }, this._speed.element),
        card({ title: "URLs", wide: "half" }, this._queue.element),
        card({ title: "Latest pages", wide: "two-thirds" }, this._pages.element),
        card({ title: "What happened", wide: "third" }, this._events),
      ),
    );
  }

  _show() {
    const seen = this._feed.overview;
    if (!seen?.totals) return; // nothing has been seen yet
    const { totals, gatherers, helpers } = seen;
    const { pages, queue, bytes, errors, who } = this._figures;
    const spark = (name) =>
      since(this._history.series.recent, SPARK_S, this._history.series.recent[name])[1].map(Number);
    pages.show(
      as.rate(totals.pages_per_s),
      "pages/s",
      `${as.count(totals.pages)} pages in all`,
      spark("pages_per_s"),
    );
    queue.show(as.short(totals.queued), "URLs", `${as.count(totals.under_way)} under way`, spark("queued"));
    const [amount, unit] = as.sizeParts(totals.bytes_per_s);
    bytes.show(amount, `${unit}/s`, `${as.size(totals.bytes)} in all`, spark("bytes_per_s"));
    errors.show(
      as.rate(totals.failed_per_s),
      "per s",
      `${as.count(totals.failed)} in all`,
      spark("failed_per_s"),
    );
    who.show(as.count(gatherers.present), "at work", this._absences(gatherers, helpers, seen));
    this._progress.show(seen.progress, seen.state);
    this._showAlarms(seen);
  }

  _absences(gatherers, helpers, seen) {
    const parts = [];
    if (gatherers.absent) parts.push(`${gatherers.absent} silent`);
    if (gatherers.paused) parts.push(`${gatherers.paused} paused`);
    parts.push(helpers.present ? as.counted(helpers.present, "helper") : "no helper");
    if (seen.resting_hosts) parts.push(`${as.counted(seen.resting_hosts, "host")} resting`);
    return parts.join(", ");
  }

  _showAlarms({ alarms, paused }) {
    const pauses = paused.map(
      ({ who, by, since: at }) =>
        `${who === "all" ? "The crawl" : who} is paused${by ? ` by ${by}` : ""}${at ? ` since ${as.moment(at)}` : ""}.`,
    );
    const said = JSON.stringify([alarms, pauses]);
    if (said === this._said) return;
    this._said = said;
    const items = [...alarms.map((text) => ["bad", text]), ...pauses.map((text) => ["warn", text])];
    const list = items.map(([look, text]) => make("li", { class: `notice ${look}` }, text));
    fill(this._alarms, items.length ? make("ul", {}, list) : nothing("Nothing. All is as it should be."));
  }

  _showEvents() {
    fill(this._events, eventList(this._feed.events.slice(0, 9)));
  }

  _showHistory() {
    const series = this._span > 3600 ? this._history.series.day : this._history.series.recent;
    const { pages_per_s: pages, failed_per_s: failed, queued, done } = series;
    this._speed.show(since(series, this._span, pages, failed));
    this._queue.show(since(series, this._span, queued, done));
  }

  end() {
    this._off.forEach((off) => off());
    this._speed.end();
    this._queue.end();
    Object.values(this._figures).forEach((each) => each.end());
  }
}
