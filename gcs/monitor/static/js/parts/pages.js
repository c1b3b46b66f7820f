// Pages that were fetched: title, URL, and what was found out. All of it comes from the web, and stays text.

import { fill, make } from "../dom.js";
import { ago, size } from "../format.js";
import { nothing } from "./card.js";

export class PageList {
  /** @param {number} [most] */
  constructor(most = Infinity) {
    this._most = most;
    this.element = make("div");
    this._shown = "";
  }

  show(pages, empty = "No page has come since you look.") {
    const some = pages.slice(0, this._most);
    const key = some.map((each) => each.number).join();
    if (key === this._shown && key) return;
    this._shown = key;
    fill(this.element, some.length ? make("ol", { class: "pages" }, some.map(pageRow)) : nothing(empty));
  }
}

function pageRow(page) {
  const about = [page.status, page.language, page.charset, size(page.bytes), page.gatherer, ago(page.at)];
  return make(
    "li",
    {},
    make(
      "div",
      { class: "page-title", dir: "auto" },
      page.title || make("span", { class: "soft" }, "No title"),
    ),
    make("div", { class: "url soft" }, page.url),
    page.excerpt ? make("p", { class: "excerpt", dir: "auto" }, page.excerpt) : null,
    make("div", { class: "small soft number" }, about.filter(Boolean).join(" · ")),
  );
}
