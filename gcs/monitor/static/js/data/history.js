// The series of the last hour and the last day, kept up to date by the feed.

import { get } from "./api.js";

const KEPT = 720;
const PLAIN = ["pages_per_s", "bytes_per_s", "failed_per_s", "queued", "done"];

export class History {
  /** @param {import("./feed.js").Feed} feed */
  constructor(feed) {
    this.series = { recent: empty(), day: empty() };
    this._listeners = new Set();
    feed.on("history", ({ point }) => this._grow(point));
    feed.on("connection", () => feed.connection.is === "live" && this.load());
  }

  /** Be told when there is more; what is returned ends that. */
  onMore(tell) {
    this._listeners.add(tell);
    return () => this._listeners.delete(tell);
  }

  async load() {
    const series = await get("history").catch(() => null);
    // If there is none, the feed says that the monitor is away, and this is asked again when it is back.
    if (!series) return;
    this.series = series;
    this._tell();
  }

  _grow(point) {
    const series = this.series.recent;
    if (series.at.length && point.at <= series.at.at(-1)) return;
    const length = series.at.push(point.at);
    for (const name of PLAIN) series[name].push(point[name] ?? null);
    for (const [name, values] of Object.entries(point.gatherers ?? {})) {
      series.gatherers[name] ??= {};
      for (const [kind, value] of Object.entries(values)) {
        series.gatherers[name][kind] ??= Array(length - 1).fill(null);
        series.gatherers[name][kind].push(value);
      }
    }
    for (const each of Object.values(series.gatherers)) {
      for (const values of Object.values(each)) if (values.length < length) values.push(null);
    }
    if (length > KEPT) cut(series);
    this._tell();
  }

  _tell() {
    for (const tell of this._listeners) tell();
  }
}

const empty = () => ({ at: [], gatherers: {}, ...Object.fromEntries(PLAIN.map((name) => [name, []])) });

function cut(series) {
  for (const values of [series.at, ...PLAIN.map((name) => series[name])]) values.shift();
  for (const each of Object.values(series.gatherers))
    for (const values of Object.values(each)) values.shift();
}

/** The tail of a series: times and one kind of values, of the last so many seconds. */
export function since(series, seconds, ...columns) {
  const from = (series.at.at(-1) ?? 0) - seconds;
  const first = Math.max(
    0,
    series.at.findIndex((at) => at >= from),
  );
  return [series.at, ...columns].map((values) => values.slice(first));
}
