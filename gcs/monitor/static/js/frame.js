// What stands around every view: the ways between them, the state of the crawl, and whether anybody answers.

import { draw, fill, make, write } from "./dom.js";
import { ago, duration, moment } from "./format.js";
import { badge } from "./parts/badge.js";
import { untip } from "./parts/tip.js";
import { onMove, place } from "./router.js";
import { toggle } from "./theme.js";
import control from "./views/control.js";
import gatherers from "./views/gatherers.js";
import hosts from "./views/hosts.js";
import languages from "./views/languages.js";
import overview from "./views/overview.js";
import search from "./views/search.js";
import tree from "./views/tree.js";

const VIEWS = [overview, search, tree, gatherers, languages, hosts, control];
const byId = (id) => document.getElementById(id);

export class Frame {
  constructor(context, { leave }) {
    this._context = context;
    this._shown = null;
    this._ways = new Map(VIEWS.map((view) => [view.name, way(view)]));
    fill(byId("ways"), [...this._ways.values()]);
    write(byId("crawl"), context.session.crawl ?? "");
    write(byId("version"), `GCS ${context.session.version ?? ""}`);
    write(byId("role"), context.mayOperate ? "Operator" : "Viewer");
    byId("leave").addEventListener("click", leave);
    byId("theme").addEventListener("click", toggle);
    byId("frame").hidden = false;
  }

  begin() {
    const { feed } = this._context;
    feed.on("overview", () => this._state());
    feed.on("connection", () => this._connection());
    feed.on("tick", () => this._connection());
    onMove(() => this._move());
    this._connection();
    this._move();
  }

  _move() {
    const { name, query } = place();
    const view = VIEWS.find((each) => each.name === name);
    if (!view) {
      if (name !== "view") location.replace("#/overview");
      return;
    }
    const isOther = this._shown?.view !== view;
    this._shown?.mounted.end();
    untip();
    for (const [each, link] of this._ways) {
      if (each === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${view.title} · ${this._context.session.crawl ?? "GCS"}`;
    const mounted = view.mount({ ...this._context, query });
    this._shown = { view, mounted };
    fill(byId("view"), make("h1", {}, view.title), mounted.element);
    if (isOther) window.scrollTo(0, 0);
  }

  _state() {
    const { state, sentence, reach } = this._context.feed.overview;
    if (this._word !== state) {
      this._word = state;
      fill(byId("state"), badge(state));
    }
    write(byId("sentence"), sentence);
    this._notice(reach);
  }

  _notice(reach) {
    const { connection, overview: seen } = this._context.feed;
    let text = "";
    if (connection.is === "away") {
      text = "What you see is what was said last.";
    } else if (reach && !reach.redis) {
      const since = moment(reach.since ?? seen.at);
      text = `${reach.sentence} Since ${since}; the monitor tries again by itself, and what you see is older.`;
    }
    const heading = connection.is === "away" ? "The monitor is away" : "Redis is away";
    if (text === this._said) return;
    this._said = text;
    const notice = make(
      "div",
      { class: "notice", role: "alert" },
      make("strong", {}, heading),
      make("span", {}, text),
    );
    fill(byId("notices"), text ? notice : null);
  }

  _connection() {
    const { connection, overview: seen } = this._context.feed;
    const live = byId("live");
    // While Redis is within reach the monitor looks every second, and says only what has changed.
    const isSeen = connection.is === "live" && Boolean(seen?.at) && seen.reach.redis;
    live.dataset.is = connection.is === "live" && !isSeen ? "unseen" : connection.is;
    if (connection.is === "away") {
      const rest = Math.max(0, Math.ceil((connection.next - Date.now()) / 1000));
      const when = rest ? `next try in ${rest} s` : "trying now";
      write(live, `away since ${moment(connection.since / 1000)}, ${when}`);
    } else if (isSeen) {
      write(live, "live");
    } else if (connection.is === "live") {
      write(live, seen?.at ? `last seen ${ago(seen.at)}` : "nothing seen yet");
    } else {
      const waited = (Date.now() - connection.since) / 1000;
      write(live, waited > 3 ? `connecting for ${duration(waited)}` : "connecting");
    }
    this._notice(seen?.reach);
  }
}

function way(view) {
  const icon = draw(
    "svg",
    { viewBox: "0 0 20 20", "aria-hidden": "true" },
    draw("path", {
      d: view.icon,
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.6,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
  return make("a", { href: `#/${view.name}` }, icon, make("span", {}, view.short ?? view.title));
}
