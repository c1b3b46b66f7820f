// What the monitor says by itself, by server-sent events, and what was said last. Reconnects for ever.

import { get } from "./api.js";

const EVENTS = ["overview", "gatherers", "history", "events", "pages", "hosts", "changed"];
const LONGEST_MS = 15_000;
const SILENCE_MS = 40_000;
const KEPT_EVENTS = 400;
const KEPT_PAGES = 60;

/** Tells of "connection" and of every event above, and "expired" when one has to sign in again. */
export class Feed extends EventTarget {
  constructor() {
    super();
    this.overview = null;
    /** @type {Map<string, any>} by id */
    this.gatherers = new Map();
    this.versions = {};
    this.events = [];
    this.pages = [];
    this.connection = { is: "connecting", since: Date.now(), next: 0 };
    this._wait_ms = 1000;
  }

  begin() {
    this._open();
    this._watch = setInterval(() => this._look(), 1000);
  }

  end() {
    clearInterval(this._watch);
    clearTimeout(this._timer);
    this._source?.close();
  }

  /** Be told; what is returned ends that. */
  on(name, tell) {
    const listener = (event) => tell(event.detail);
    this.addEventListener(name, listener);
    return () => this.removeEventListener(name, listener);
  }

  _open() {
    this._heard = Date.now();
    this._source = new EventSource("api/stream");
    this._source.onerror = () => this._lost();
    for (const name of EVENTS) {
      this._source.addEventListener(name, (event) => this._said(name, JSON.parse(event.data)));
    }
  }

  _said(name, data) {
    this._heard = Date.now();
    this._wait_ms = 1000;
    if (this.connection.is !== "live") {
      this._become("live");
      this._catchUp();
    }
    this[`_take_${name}`]?.(data);
    this._tell(name, data);
  }

  _take_overview(data) {
    this.overview = data;
  }

  _take_gatherers({ all, changed, gone }) {
    if (all) this.gatherers.clear();
    for (const id of gone) this.gatherers.delete(id);
    for (const each of changed) this.gatherers.set(each.id, { ...this.gatherers.get(each.id), ...each });
  }

  _take_events({ events }) {
    const known = new Set(this.events.map((each) => each.id));
    this.events = [...events.filter((each) => !known.has(each.id)), ...this.events]
      .sort((one, two) => two.id - one.id)
      .slice(0, KEPT_EVENTS);
  }

  _take_pages({ pages }) {
    const known = new Set(this.pages.map((each) => each.number));
    this.pages = [...pages.filter((each) => !known.has(each.number)), ...this.pages].slice(0, KEPT_PAGES);
  }

  _take_changed(data) {
    this.versions = data;
  }

  _look() {
    if (this.connection.is === "live" && Date.now() - this._heard > SILENCE_MS) this._lost();
    else this._tell("tick");
  }

  /** What was said while nobody listened. */
  async _catchUp() {
    const [events, pages] = await Promise.allSettled([get("events"), get("pages", { most: KEPT_PAGES })]);
    if (events.value) this._said("events", events.value);
    if (pages.value) this._said("pages", pages.value);
  }

  /** EventSource gives up on some answers, so we always begin anew ourselves. */
  _lost() {
    this._source.close();
    clearTimeout(this._timer);
    const next = Date.now() + this._wait_ms;
    if (this.connection.is === "away") this.connection = { ...this.connection, next };
    else this._become("away", next);
    this._tell("connection");
    this._timer = setTimeout(() => this._again(), this._wait_ms);
    this._wait_ms = Math.min(LONGEST_MS, this._wait_ms * 1.7);
  }

  async _again() {
    try {
      const { role } = await get("session");
      if (role === null) {
        this._tell("expired");
        return;
      }
    } catch {
      this._lost();
      return;
    }
    this._open();
  }

  _become(is, next = 0) {
    const since = is === "away" ? this._heard : Date.now();
    this.connection = { is, since, next };
    this._tell("connection");
  }

  _tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
