// A table that can be sorted and that draws only the rows in sight, so that 5,000 cost no more than 50.
// Cells are changed only where they differ: what is selected, pointed at or has the focus stays so.

import { fill, make, write } from "../dom.js";
import { NONE } from "../format.js";

const ROW_PX = 33;
const BOX_PX = 480;
const VIRTUAL = 30;
const MARGIN = 5;

/**
 * @typedef {Object} Column
 * @property {string} label
 * @property {(row: any) => any} value What it is sorted by, and shown if there is no `show`.
 * @property {(row: any) => any} [show] Text or an element.
 * @property {boolean} [end] Whether it is a number.
 * @property {boolean} [wide] Whether it is prose, which may take several lines.
 * @property {boolean} [head] Whether it names the row.
 */

export class Table {
  /**
   * @param {{caption: string, columns: Column[], sort?: number, descending?: boolean, empty?: any}} options
   *   `sort` is the column to begin with; -1 leaves the order as it comes.
   */
  constructor({ caption, columns, sort = -1, descending = true, empty = "Nothing yet." }) {
    Object.assign(this, { columns, _sort: sort, _descending: descending, _all: [], _sorted: [] });
    this._heads = columns.map((column, at) => this._head(column, at));
    this._made = [];
    this._above = gap(columns.length);
    this._below = gap(columns.length);
    this._body = make("tbody");
    this._table = make(
      "table",
      {},
      make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, this._heads)),
      this._body,
    );
    this._empty = make("p", { class: "empty", hidden: true }, make("span", {}, empty));
    this._box = make(
      "div",
      { class: "table-box", tabIndex: 0, role: "group", "aria-label": caption, onscroll: () => this._draw() },
      this._table,
    );
    this.element = make("div", { class: "table" }, this._box, this._empty);
    this._mark();
  }

  /** The rows to show from now on. */
  set rows(rows) {
    this._all = rows;
    this._order();
  }

  _head(column, at) {
    const sorter = make(
      "button",
      { class: "sorter", type: "button", onclick: () => this._by(at) },
      column.label,
    );
    return make("th", { scope: "col", class: kind(column) }, sorter);
  }

  _by(at) {
    this._descending = this._sort === at ? !this._descending : Boolean(this.columns[at].end);
    this._sort = at;
    this._mark();
    this._order();
  }

  _mark() {
    this._heads.forEach((head, at) => {
      if (at === this._sort) head.setAttribute("aria-sort", this._descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  _order() {
    this._sorted = [...this._all];
    if (this._sort >= 0) {
      const { value } = this.columns[this._sort];
      const sign = this._descending ? -1 : 1;
      this._sorted.sort((one, two) => sign * compare(value(one), value(two)));
    }
    const many = this._sorted.length;
    this._box.classList.toggle("fixed", many > VIRTUAL);
    this._box.hidden = many === 0;
    this._empty.hidden = many > 0;
    this._table.setAttribute("aria-rowcount", String(many + 1));
    this._draw();
  }

  _draw() {
    const many = this._sorted.length;
    let [from, to] = [0, many];
    if (many > VIRTUAL) {
      const first = Math.floor(this._box.scrollTop / ROW_PX);
      from = Math.max(0, Math.min(first - MARGIN, many - MARGIN));
      to = Math.min(many, first + Math.ceil(Math.max(this._box.clientHeight, BOX_PX) / ROW_PX) + MARGIN);
    }
    while (this._made.length < to - from) this._made.push(this._blank());
    for (let at = from; at < to; at += 1) this._write(this._made[at - from], this._sorted[at]);
    stretch(this._above, from);
    stretch(this._below, many - to);
    if (this._body.childElementCount !== to - from + 2) {
      fill(this._body, this._above, this._made.slice(0, to - from), this._below);
    }
  }

  _blank() {
    const cells = this.columns.map((column) =>
      make(column.head ? "th" : "td", { scope: column.head ? "row" : null, class: kind(column) }),
    );
    return make("tr", {}, cells);
  }

  _write(element, row) {
    this.columns.forEach((column, at) => {
      const cell = element.children[at];
      const shown = (column.show ?? column.value)(row) ?? NONE;
      if (!(shown instanceof Node)) write(cell, shown);
      // An element may have listeners for its row, so that two that look the same are not.
      else if (shown.matches("button") || !cell.firstChild?.isEqualNode(shown)) fill(cell, shown);
    });
  }
}

const kind = (column) => (column.end ? "end" : column.wide ? "wide" : "");

const gap = (columns) =>
  make("tr", { class: "spacer", "aria-hidden": "true", hidden: true }, make("td", { colSpan: columns }));

function stretch(spacer, rows) {
  spacer.hidden = rows === 0;
  spacer.firstChild.style.height = `${rows * ROW_PX}px`;
}

function compare(one, two) {
  if (typeof one === "number" || typeof two === "number") return (one ?? -Infinity) - (two ?? -Infinity);
  return String(one ?? "").localeCompare(String(two ?? ""), "en", { numeric: true });
}
