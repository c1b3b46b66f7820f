// Names with bars: how much of each there is.

import { make, write } from "../dom.js";
import { percent, short } from "../format.js";
import { nothing } from "../parts/card.js";

/** @typedef {{name: string, value: number, note?: string, isRest?: boolean}} Bar */

export class Bars {
  /** @param {{label: string, most?: number, unit?: string, empty?: string}} options */
  constructor({ label, most = 15, empty = "Nothing yet." }) {
    this._most = most;
    this._list = make("ul", { class: "bars", "aria-label": label });
    this._empty = nothing(empty);
    this.element = make("div", {}, this._list, this._empty);
    this._made = new Map();
  }

  /** @param {Bar[]} bars */
  show(bars) {
    const sorted = [...bars].sort((one, two) => two.value - one.value);
    const total = sorted.reduce((sum, each) => sum + each.value, 0) || 1;
    const rest = sorted.slice(this._most);
    const shown = sorted.slice(0, this._most);
    if (rest.length) {
      const value = rest.reduce((sum, each) => sum + each.value, 0);
      shown.push({ name: `${rest.length} more`, value, isRest: true });
    }
    const most = Math.max(1, ...shown.filter((each) => !each.isRest).map((each) => each.value));
    const rows = shown.map((each) => this._row(each, each.value / most, each.value / total));
    if (
      rows.some((row, at) => this._list.children[at] !== row) ||
      this._list.children.length !== rows.length
    ) {
      this._list.replaceChildren(...rows);
    }
    this._empty.hidden = shown.length > 0;
    this._list.hidden = shown.length === 0;
  }

  _row(bar, length, share) {
    let row = this._made.get(bar.name);
    if (!row) {
      const parts = [
        make("span", { class: "bar-name", title: bar.name }, bar.name),
        make("span", { class: "bar-track" }, make("i", {})),
        make("span", { class: "bar-value number" }),
        make("span", { class: "bar-share number soft" }),
      ];
      row = make("li", { class: bar.isRest ? "rest" : "" }, parts);
      this._made.set(bar.name, row);
    }
    const [, track, value, part] = row.children;
    track.firstElementChild.style.width = `${Math.max(0.5, Math.min(1, length) * 100)}%`;
    write(value, short(bar.value));
    write(part, bar.note ?? percent(share));
    return row;
  }
}
