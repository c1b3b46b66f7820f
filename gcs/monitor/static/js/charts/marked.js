// A chart on a canvas in which one thing is marked: by the pointer, or by keys, which say aloud what it is.

import { make } from "../dom.js";
import { tip, untip } from "../parts/tip.js";
import { Canvas } from "./canvas.js";

export class MarkedChart {
  /**
   * @param {{box: string, canvas: string, label: string, role: string}} look Classes, what it is, and what kind.
   */
  constructor({ box, canvas, label, role }) {
    this._at = null;
    this._canvas = new Canvas(
      {
        class: canvas,
        tabIndex: 0,
        role: "application",
        "aria-roledescription": role,
        "aria-label": label,
        onmousemove: (event) => this._point(event),
        onmouseleave: () => this._leave(),
        onblur: () => this._leave(),
        onclick: (event) => this._click(event),
        onkeydown: (event) => this._key(event),
      },
      (context, width, height) => this._paint(context, width, height),
    );
    this._said = make("p", { class: "unseen", "aria-live": "polite" });
    this.element = make("div", { class: box }, this._canvas.element, this._said);
  }

  /** Mark something, and say beside a point of the window what it is. */
  _mark(at, x, y, lines) {
    tip(x, y, lines);
    if (at === this._at) return;
    this._at = at;
    this._canvas.draw();
  }

  /** Say it to those who do not see. */
  _say(lines) {
    this._said.textContent = lines.join(", ");
  }

  _click() {}

  _leave() {
    untip();
    if (this._at === null) return;
    this._at = null;
    this._canvas.draw();
  }

  end() {
    untip();
    this._canvas.end();
  }
}
