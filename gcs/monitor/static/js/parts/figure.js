// One figure of the crawl: its name, its value with the unit, a line below, and how it went of late.

import { make, write } from "../dom.js";
import { Spark } from "../charts/spark.js";

export class Figure {
  /** @param {string} name @param {{spark?: boolean}} [options] */
  constructor(name, { spark = true } = {}) {
    this._value = document.createTextNode("–");
    this._unit = make("span", { class: "unit" });
    this._aside = make("div", { class: "aside" });
    this._spark = spark ? new Spark() : null;
    this.element = make(
      "div",
      { class: "figure" },
      make("dt", {}, name),
      make("dd", {}, this._value, this._unit, this._aside),
      this._spark?.element,
    );
  }

  /** @param {string} value @param {string} unit @param {string} aside @param {number[]} [history] */
  show(value, unit, aside, history) {
    if (this._value.data !== value) this._value.data = value;
    write(this._unit, unit);
    write(this._aside, aside);
    if (history) this._spark?.show(history);
  }

  end() {
    this._spark?.end();
  }
}
