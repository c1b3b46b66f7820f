// Values over time, by uPlot; what the pointer is at is said in the legend.

/* global uPlot */

import { make, write } from "../dom.js";
import { moment } from "../format.js";
import { font, onChange, token } from "../theme.js";

/**
 * @typedef {Object} Line
 * @property {string} label
 * @property {string} colour A token such as `--accent`, or a colour.
 * @property {(value: number) => string} show With its unit.
 * @property {boolean} [fill]
 * @property {number[]} [dash]
 */

export class TimeSeries {
  /** @param {{label: string, lines: Line[], height?: number, axis: (value: number) => string}} options */
  constructor({ label, lines, height = 220, axis }) {
    Object.assign(this, {
      _label: label,
      _lines: lines,
      _height: height,
      _axis: axis,
      _data: null,
      _plot: null,
    });
    this._values = lines.map(() => make("b", { class: "number" }));
    this._time = make("span", { class: "soft number" });
    this._legend = make("div", { class: "legend" }, this._keys(), this._time);
    this._box = make("div", { class: "plot", role: "img", "aria-label": label });
    this._empty = make("p", { class: "empty" }, "The line begins with the second measurement.");
    this.element = make("div", {}, this._legend, this._box, this._empty);
    this._sizes = new ResizeObserver(() => this._resize());
    this._sizes.observe(this.element);
    this._untheme = onChange(() => this._rebuild());
  }

  /** @param {number[][]} data Times, then the values of each line. */
  show(data) {
    this._data = data;
    const isSome = data[0].length > 1;
    this._empty.hidden = isSome;
    this._box.hidden = !isSome;
    if (!isSome) return;
    if (this._plot) this._plot.setData(data);
    else this._rebuild();
    this._say(data[0].length - 1, false);
    this._describe();
  }

  _keys() {
    return this._lines.map((line, at) => {
      const key = make("i", { class: "key" });
      key.style.background = line.colour.startsWith("--") ? `var(${line.colour})` : line.colour;
      return make("span", {}, key, line.label, " ", this._values[at]);
    });
  }

  _say(index, isPointed) {
    this._lines.forEach((line, at) => write(this._values[at], line.show(this._data[at + 1][index])));
    write(this._time, isPointed ? moment(this._data[0][index]) : "");
  }

  _describe() {
    const parts = this._lines.map((line, at) => {
      const values = this._data[at + 1].filter((value) => value !== null);
      return `${line.label}: now ${line.show(values.at(-1))}, at most ${line.show(Math.max(...values))}`;
    });
    this._box.setAttribute("aria-label", `${this._label}. ${parts.join("; ")}.`);
  }

  _rebuild() {
    this._plot?.destroy();
    this._plot = null;
    if (!this._data || this._data[0].length < 2) return;
    const [grid, ink] = [token("--line"), token("--ink-soft")];
    const axis = { stroke: ink, font: font(12), grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const options = {
      width: this.element.clientWidth || 300,
      height: this._height,
      legend: { show: false },
      padding: [8, 18, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: true }, y: { range: (_plot, _least, most) => [0, (most || 1) * 1.08] } },
      axes: [
        {
          ...axis,
          size: 28,
          space: 80,
          values: [
            [3600, "{HH}:{mm}"],
            [60, "{HH}:{mm}"],
            [1, "{HH}:{mm}:{ss}"],
          ],
        },
        { ...axis, size: 56, space: 44, values: (_plot, marks) => marks.map((mark) => this._axis(mark)) },
      ],
      series: [{}, ...this._lines.map((line) => this._series(line))],
      hooks: {
        setCursor: [
          (plot) => {
            const index = plot.cursor.idx;
            this._say(index ?? this._data[0].length - 1, index !== null && index !== undefined);
          },
        ],
      },
    };
    this._plot = new uPlot(options, this._data, this._box);
  }

  _series(line) {
    const stroke = line.colour.startsWith("--") ? token(line.colour) : line.colour;
    return {
      stroke,
      width: 1.8,
      dash: line.dash,
      fill: line.fill ? token("--band") : undefined,
      points: { show: false },
      spanGaps: false,
    };
  }

  _resize() {
    const width = this.element.clientWidth;
    if (this._plot && width) this._plot.setSize({ width, height: this._height });
  }

  end() {
    this._sizes.disconnect();
    this._untheme();
    this._plot?.destroy();
  }
}
