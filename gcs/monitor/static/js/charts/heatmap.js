// A table of numbers as a field of squares: rows by columns, darker is more. Used for rates and for traffic.

import { short } from "../format.js";
import { inkOn, step } from "../palette.js";
import { font, token } from "../theme.js";
import { MarkedChart } from "./marked.js";

const HEAD_PX = 8;
const HEIGHT_PX = 560;
const LEAST_PX = 10;
const MOST_PX = 22;
const NAME_PX = 13;
const LEAN_PX = 34; // of the last column's name
const WRITTEN_PX = 40;

/** @typedef {{rows: string[], columns: string[], values: (number|null)[][]}} Field */

export class HeatMap extends MarkedChart {
  /**
   * @param {{label: string, tell: (row: number, column: number, field: Field) => string[], scale?: "all"|"column", heads?: boolean}} options `scale` says with what a value is compared.
   */
  constructor({ label, tell, scale = "all", heads = false }) {
    super({
      box: "field-box",
      canvas: "field",
      role: "heat map",
      label: `${label}. Arrow keys go from field to field.`,
    });
    Object.assign(this, { _tell: tell, _scale: scale, _heads: heads });
    /** @type {Field} */
    this._field = { rows: [], columns: [], values: [] };
  }

  /** @param {Field} field */
  show(field) {
    this._field = field;
    this._rowPx = Math.max(
      LEAST_PX,
      Math.min(MOST_PX, Math.floor(HEIGHT_PX / Math.max(1, field.rows.length))),
    );
    const names = field.rows.map((row) => row.length);
    this._left = Math.min(130, 14 + 7 * Math.max(3, ...names));
    this._top = this._heads
      ? 18 + Math.min(84, 6.2 * Math.max(2, ...field.columns.map((each) => each.length)))
      : HEAD_PX;
    this._canvas.element.style.height = `${this._top + field.rows.length * this._rowPx + 4}px`;
    this._most = field.columns.map((_, column) =>
      Math.max(0, ...field.values.map((row) => row[column] ?? 0)),
    );
    this._mostOfAll = Math.max(1e-12, ...this._most);
    this._canvas.draw();
  }

  _paint(context, width) {
    const { rows, columns, values } = this._field;
    if (!rows.length || !columns.length) return;
    const cell = this._cell(width);
    const gap = cell > 6 ? 1 : 0;
    context.font = font(12);
    context.textBaseline = "middle";
    context.fillStyle = token("--ink-soft");
    const rowPx = this._rowPx;
    rows.forEach((name, at) => {
      if (at % Math.ceil(NAME_PX / rowPx)) return;
      const y = this._top + at * rowPx + rowPx / 2;
      context.fillText(clipped(context, name, this._left - 10), 0, y);
    });
    if (this._heads) this._paintHeads(context, columns, cell);
    values.forEach((row, at) => {
      const y = this._top + at * rowPx;
      row.forEach((value, column) => {
        const x = this._left + column * cell;
        if (value === null || value === undefined) {
          context.fillStyle = token("--sunk");
          context.fillRect(x, y + rowPx / 2 - 0.5, Math.max(1, cell - gap), 1);
          return;
        }
        const most = this._scale === "column" ? this._most[column] || 1 : this._mostOfAll;
        const colour = step((value / most) * 0.999);
        context.fillStyle = colour;
        context.fillRect(x, y, cell - gap, rowPx - 1);
        if (this._heads && cell >= WRITTEN_PX) write(context, value, colour, x + cell / 2, y + rowPx / 2);
      });
    });
    if (this._at) this._paintMark(context, cell);
  }

  _paintHeads(context, columns, cell) {
    columns.forEach((name, at) => {
      if (cell < 11 && at % Math.ceil(11 / cell)) return;
      context.save();
      context.translate(this._left + at * cell + cell / 2, this._top - 6);
      context.rotate(-Math.PI / 2.6);
      context.fillText(clipped(context, name, 88), 0, 0);
      context.restore();
    });
  }

  _paintMark(context, cell) {
    const [row, column] = this._at;
    context.strokeStyle = token("--ink");
    context.lineWidth = 2;
    context.strokeRect(
      this._left + column * cell,
      this._top + row * this._rowPx,
      Math.max(3, cell - 1),
      this._rowPx - 1,
    );
  }

  _cell(width) {
    return Math.min(
      this._heads ? 62 : 34,
      (width - this._left - (this._heads ? LEAN_PX : 0)) / this._field.columns.length,
    );
  }

  _point(event) {
    const box = this._canvas.element.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this._left) / this._cell(box.width));
    const row = Math.floor((event.clientY - box.top - this._top) / this._rowPx);
    this._go(row, column, event.clientX, event.clientY);
  }

  _key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this._leave();
    const move = steps[event.key];
    if (!move) return;
    event.preventDefault();
    const { rows, columns } = this._field;
    const [row, column] = this._at ?? [0, -move[1]];
    const next = [row + (this._at ? move[0] : 0), column + move[1]].map((each, at) =>
      Math.max(0, Math.min([rows.length, columns.length][at] - 1, each)),
    );
    const box = this._canvas.element.getBoundingClientRect();
    const x = box.left + this._left + (next[1] + 1) * this._cell(box.width);
    this._go(next[0], next[1], x, box.top + this._top + (next[0] + 1) * this._rowPx);
    this._say(this._tell(next[0], next[1], this._field));
  }

  _go(row, column, x, y) {
    const { rows, columns } = this._field;
    if (row < 0 || column < 0 || row >= rows.length || column >= columns.length) {
      this._leave();
      return;
    }
    const isSame = this._at && this._at[0] === row && this._at[1] === column;
    this._mark(isSame ? this._at : [row, column], x, y, this._tell(row, column, this._field));
  }
}

/** A number inside its field. */
function write(context, value, colour, x, y) {
  context.fillStyle = inkOn(colour);
  context.textAlign = "center";
  context.fillText(short(value), x, y);
  context.textAlign = "start";
}

/** A text cut so that it fits. */
export function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let least = 0;
  let most = text.length;
  while (least < most) {
    const half = (least + most + 1) >> 1;
    if (context.measureText(`${text.slice(0, half)}…`).width <= width) least = half;
    else most = half - 1;
  }
  return `${text.slice(0, least)}…`;
}
