// A table that can be sorted and that draws only the rows in sight, so that 5,000 cost no more than 50.

import { fill, make } from "../dom.js";
import { NONE } from "../format.js";

const ROW_PX = 33;
const VIRTUAL = 60;
const MARGIN = 8;
const BOX_PX = 480;

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
   * @param {{caption: string, columns: Column[], sort?: number, descending?: boolean, empty?: string,
   *   onrow?: (row: any) => void}} options `sort` is the column to begin with; -1 leaves the order as it comes.
   */
  constructor({ caption, columns, sort = -1, descending = true, empty = "Nothing yet.", onrow }) {
    Object.assign(this, { columns, _sort: sort, _descending: descending, _onrow: onrow, _all: [], _sorted: [] });
    this._heads = columns.map((column, at) => this._head(column, at));
    this._body = make("tbody");
    this._table = make(
      "table",
      {},
      make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, this._heads)),
      this._body,
    );
    this._empty = make("p", { class: "empty", hidden: true }, empty);
    this._box = make(
      "div",
      { class: "table-box", tabIndex: 0, role: "region", "aria-label": caption, onscroll: () => this._scrolled() },
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

  get rows() {
    return this._sorted;
  }

  _head(column, at) {
    const sorter = make("button", { class: "sorter", type: "button", onclick: () => this._by(at) }, column.label);
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
    const isMany = this._sorted.length > VIRTUAL;
    this._box.classList.toggle("fixed", isMany);
    this._box.hidden = this._sorted.length === 0;
    this._empty.hidden = this._sorted.length > 0;
    this._from = -1;
    this._scrolled();
  }

  _scrolled() {
    const many = this._sorted.length;
    let from = 0;
    let to = many;
    if (many > VIRTUAL) {
      const first = Math.floor(this._box.scrollTop / ROW_PX);
      from = Math.max(0, Math.min(first - MARGIN, many - MARGIN));
      to = Math.min(many, first + Math.ceil(Math.max(this._box.clientHeight, BOX_PX) / ROW_PX) + MARGIN);
    }
    if (from === this._from && to === this._to) return;
    [this._from, this._to] = [from, to];
    const shown = this._sorted.slice(from, to).map((row) => this._row(row));
    fill(this._body, this._gap(from), shown, this._gap(many - to));
    this._table.setAttribute("aria-rowcount", String(many + 1));
  }

  _gap(rows) {
    if (!rows) return null;
    const cell = make("td", { colSpan: this.columns.length });
    cell.style.height = `${rows * ROW_PX}px`;
    return make("tr", { class: "spacer", "aria-hidden": "true" }, cell);
  }

  _row(row) {
    const cells = this.columns.map((column) => {
      const shown = (column.show ?? column.value)(row);
      const text = shown ?? NONE;
      const title = this._box.classList.contains("fixed") && typeof text === "string" ? text : null;
      const tag = column.head ? "th" : "td";
      return make(tag, { scope: column.head ? "row" : null, class: kind(column), title }, text);
    });
    return make("tr", this._onrow ? { onclick: () => this._onrow(row) } : {}, cells);
  }
}

const kind = (column) => (column.end ? "end" : column.wide ? "wide" : "");

function compare(one, two) {
  if (typeof one === "number" || typeof two === "number") return (one ?? -Infinity) - (two ?? -Infinity);
  return String(one ?? "").localeCompare(String(two ?? ""), "en", { numeric: true });
}
