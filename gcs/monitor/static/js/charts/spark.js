// A small line without axes: whether something rises or falls.

import { token } from "../theme.js";
import { Canvas } from "./canvas.js";

export class Spark {
  constructor() {
    this._values = [];
    this._canvas = new Canvas({ "aria-hidden": "true" }, (context, width, height) =>
      this._paint(context, width, height),
    );
    this.element = this._canvas.element;
  }

  /** @param {number[]} values oldest first */
  show(values) {
    this._values = values;
    this._canvas.draw();
  }

  _paint(context, width, height) {
    const values = this._values;
    if (values.length < 2) return;
    const most = Math.max(...values, 1e-9);
    const least = Math.min(...values, 0);
    const x = (at) => (at / (values.length - 1)) * (width - 4) + 2;
    const y = (value) => height - 3 - ((value - least) / (most - least)) * (height - 7);
    context.beginPath();
    values.forEach((value, at) => context.lineTo(x(at), y(value)));
    context.strokeStyle = token("--accent");
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(x(values.length - 1), height);
    context.lineTo(x(0), height);
    context.fillStyle = token("--band");
    context.fill();
    context.beginPath();
    context.arc(x(values.length - 1), y(values.at(-1)), 2.6, 0, 7);
    context.fillStyle = token("--accent");
    context.fill();
  }

  end() {
    this._canvas.end();
  }
}
