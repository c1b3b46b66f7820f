// Which hosts are slow, large, failing or set aside; where one URL stands; and what the latest pages say.

import { fill, fresh, make } from "../dom.js";
import * as as from "../format.js";
import { get } from "../data/api.js";
import { Resource } from "../data/resource.js";
import { card, nothing } from "../parts/card.js";
import { choices } from "../parts/choices.js";
import { PageList } from "../parts/pages.js";
import { go } from "../router.js";
import { hostsTable } from "./hosttable.js";
import { verdict } from "./verdict.js";

const ORDERS = [
  ["slowest", "Slowest"],
  ["largest", "Largest"],
  ["errors", "Most errors"],
  ["aside", "Set aside"],
];
const MOST = 200;
const PAGES = 15;
const PAUSE_MS = 250;

export default {
  name: "hosts",
  title: "Hosts and pages",
  short: "Hosts",
  icon: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01M9 6.5h5M9 13.5h5",
  mount: (context) => new Hosts(context),
};

class Hosts {
  constructor({ feed, query }) {
    this._order = "slowest";
    this._words = "";
    this._hostsBox = make("div");
    this._why = make("div", { role: "status" });
    this._pages = new PageList();
    this._shown = [];
    this._found = make("p", { class: "small soft", role: "status" });
    this._search = { q: "", language: "" };
    this._older = make(
      "button",
      { type: "button", class: "button spaced-above", onclick: () => this._more() },
      "Show older ones",
    );
    this.element = this._laidOut(query);
    this._makeTable();
    this._resource = new Resource(feed, {
      path: "hosts",
      version: "hosts",
      query: () => ({ order: this._order, most: MOST, q: this._words }),
      show: ({ hosts }) => this._showHosts(hosts),
      fail: (sentence) => fill(this._hostsBox, nothing(sentence)),
    });
    this._off = feed.on("pages", () => this._isPlain && this._shown.length <= PAGES && this._searched());
    this._searched();
    if (query.get("url")) this._ask(query.get("url"));
  }

  _laidOut(query) {
    const orders = choices("Which hosts", ORDERS, this._order, (value) => {
      this._order = value;
      this._makeTable();
      this._resource.refresh();
    });
    const byName = field("Host contains", {
      type: "search",
      oninput: later((event) => {
        this._words = event.target.value.trim();
        this._resource.refresh();
      }),
    });
    const words = field("Words in title, URL or excerpt", {
      type: "search",
      oninput: later((event) => this._narrow({ q: event.target.value.trim() })),
    });
    const language = field("Language", {
      placeholder: "any, or de",
      maxLength: 8,
      oninput: later((event) => this._narrow({ language: event.target.value.trim() })),
    });
    language.classList.add("narrow");
    return make(
      "div",
      { class: "grid" },
      card(
        { title: "Where does a URL stand?", note: "Its owner and all others are asked; nothing is fetched." },
        this._whyForm(query),
        this._why,
      ),
      card({ title: "Hosts", tools: [orders] }, make("div", { class: "row spaced" }, byName), this._hostsBox),
      card(
        {
          title: "Latest pages",
          note: "The last 2,000 summaries are kept here; all are in the stores of the gatherers.",
        },
        make("div", { class: "row spaced" }, words, language),
        this._found,
        this._pages.element,
        this._older,
      ),
    );
  }

  // One URL

  _whyForm(query) {
    const input = make("input", {
      id: "why-url",
      type: "text",
      inputMode: "url",
      placeholder: "https://example.org/page",
      spellcheck: false,
      required: true,
      value: query.get("url") ?? "",
    });
    return make(
      "form",
      {
        class: "row",
        onsubmit: (event) => {
          event.preventDefault();
          go("hosts", { url: input.value.trim() });
          this._ask(input.value.trim());
        },
      },
      make("div", { class: "field grow" }, make("label", { htmlFor: "why-url" }, "URL"), input),
      make("button", { class: "button main-act" }, "Look it up"),
    );
  }

  async _ask(url) {
    const asking = Symbol("asking");
    this._asking = asking;
    fill(this._why, make("p", { class: "outcome" }, "Asking the gatherers …"));
    try {
      const { facts: found, lines } = await get("why", { url });
      if (this._asking === asking) fill(this._why, verdict(found, lines));
    } catch (error) {
      if (this._asking === asking) fill(this._why, make("p", { class: "outcome bad" }, error.message));
    }
  }

  // Hosts

  _makeTable() {
    this._table = hostsTable(this._order);
    fill(this._hostsBox, this._table.element);
  }

  _showHosts(hosts) {
    if (!this._table.element.isConnected) fill(this._hostsBox, this._table.element);
    this._table.rows = hosts;
  }

  // Pages

  get _isPlain() {
    return !this._search.q && !this._search.language;
  }

  _narrow(change) {
    Object.assign(this._search, change);
    this._searched();
  }

  _searched() {
    return this._more({ anew: true });
  }

  async _more({ anew = false } = {}) {
    const asked = { ...this._search };
    const turn = Symbol("turn");
    this._turn = turn;
    const before = anew ? "" : (this._shown.at(-1)?.number ?? "");
    try {
      const { pages, in_all: all } = await get("pages", { ...asked, before, most: PAGES });
      if (this._turn !== turn) return;
      this._shown = anew ? pages : [...this._shown, ...pages];
      this._older.hidden = pages.length < PAGES;
      const found = as.counted(this._shown.length, "page");
      fill(
        this._found,
        `${found} of the last ${as.count(all)} shown${this._isPlain ? "" : ", of those that fit"}.`,
      );
      this._pages.show(this._shown, "No page fits.");
    } catch (error) {
      fill(this._found, error.message);
    }
  }

  end() {
    this._off();
    this._resource.end();
  }
}

function field(label, properties) {
  const id = fresh("field");
  return make(
    "div",
    { class: "field grow" },
    make("label", { htmlFor: id }, label),
    make("input", { id, ...properties }),
  );
}

/** Wait until somebody has stopped typing. */
function later(act) {
  let timer = 0;
  return (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(event), PAUSE_MS);
  };
}
