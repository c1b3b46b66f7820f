// Full text search over what all gatherers have fetched. What is found comes from the web, and stays text.

import { fill, make } from "../dom.js";
import * as as from "../format.js";
import { get } from "../data/api.js";
import { card, nothing } from "../parts/card.js";
import { marked } from "../parts/marked.js";
import { go } from "../router.js";

const LIMIT = 10;
const MOST = 1_000;

export default {
  name: "search",
  title: "Search",
  icon: "M9 3a6 6 0 1 0 0 12A6 6 0 0 0 9 3zM13.5 13.5L17 17",
  mount: (context) => new Search(context),
};

class Search {
  constructor({ query }) {
    this._words = query.get("q") ?? "";
    this._page = Math.max(1, Number(query.get("page")) || 1);
    this._said = make("p", { class: "small soft", role: "status" });
    this._results = make("div");
    this.element = make(
      "div",
      { class: "grid" },
      card(
        {
          title: "Find pages",
          note: 'All words, in any form; "a phrase"; title: about: text: url: host: lang: type:; -without; OR.',
        },
        this._form(),
        this._said,
        this._results,
      ),
    );
    if (this._words) this._ask();
    else requestAnimationFrame(() => this._input.focus({ preventScroll: true }));
  }

  _form() {
    const input = (this._input = make("input", {
      id: "search-words",
      type: "search",
      required: true,
      maxLength: MOST,
      value: this._words,
    }));
    return make(
      "form",
      {
        class: "row spaced",
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          const words = input.value.trim();
          if (words === this._words && this._page === 1) this._ask();
          else if (words) go("search", { q: words });
        },
      },
      make("div", { class: "field grow" }, make("label", { htmlFor: "search-words" }, "Words"), input),
      make("button", { class: "button main-act" }, "Search"),
    );
  }

  async _ask() {
    const asking = Symbol("asking");
    this._asking = asking;
    fill(this._said, "Asking the gatherers …");
    try {
      const { facts } = await get("search", { q: this._words, page: this._page, limit: LIMIT });
      if (this._asking === asking) this._show(facts);
    } catch (error) {
      if (this._asking !== asking) return;
      fill(this._said, error.message);
      fill(this._results);
    }
  }

  _show({ total, pages, results, failed, silent }) {
    const missing = [
      ...Object.entries(failed).map(([name, why]) => `${name}: ${why}.`),
      ...silent.map((name) => `${name} has not answered.`),
    ];
    fill(this._said, [`${as.count(total)} found among ${as.counted(pages, "page")}.`, ...missing].join(" "));
    const first = (this._page - 1) * LIMIT + 1;
    fill(
      this._results,
      results.length
        ? make("ol", { class: "pages", start: first }, results.map(resultRow))
        : nothing("No page fits."),
      this._ways(total),
    );
  }

  _ways(total) {
    const last = Math.ceil(Math.min(total, MOST) / LIMIT);
    if (last <= 1) return null;
    const way = (label, page) =>
      make(
        "button",
        {
          type: "button",
          class: "button",
          disabled: page < 1 || page > last,
          onclick: () => go("search", { q: this._words, page }),
        },
        label,
      );
    return make(
      "nav",
      { class: "row spaced-above", "aria-label": "Pages of results" },
      way("Previous", this._page - 1),
      make("span", { class: "soft number" }, `${as.count(this._page)} of ${as.count(last)}`),
      way("Next", this._page + 1),
    );
  }

  end() {
    this._asking = null;
  }
}

function resultRow(result) {
  const about = [result.language, result.media_type, result.fetched_at];
  const title = result.title ? marked(result.title, result.title_marks) : [result.url];
  const stand = `#/hosts?${new URLSearchParams({ url: result.url })}`;
  return make(
    "li",
    {},
    make("div", { class: "page-title", dir: "auto" }, make("a", { href: stand }, title)),
    make("div", { class: "url soft" }, result.url),
    result.text
      ? make("p", { class: "excerpt", dir: "auto" }, marked(result.text, result.text_marks))
      : null,
    make("div", { class: "small soft number" }, about.filter(Boolean).join(" · ")),
  );
}
