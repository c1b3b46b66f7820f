// A canvas that is as sharp as the screen, drawn anew when its size or the theme changes, once per frame at most.

import { make } from "../dom.js";
import { onChange } from "../theme.js";

export class Canvas {
  /**
   * @param {Object<string, any>} properties Of the element.
   * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} paint
   */
  constructor(properties, paint) {
    this.element = make("canvas", properties);
    this._paint = paint;
    this._frame = 0;
    this._sizes = new ResizeObserver(() => this.draw());
    this._sizes.observe(this.element);
    this._untheme = onChange(() => this.draw());
  }

  /** Draw before the next frame. */
  draw() {
    if (this._frame) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._now();
    });
  }

  _now() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const dots = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * dots), Math.round(height * dots)];
    if (this.element.width !== w || this.element.height !== h)
      Object.assign(this.element, { width: w, height: h });
    const context = this.element.getContext("2d");
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, width, height);
    this._paint(context, width, height);
  }

  /** Stop listening. */
  end() {
    cancelAnimationFrame(this._frame);
    this._sizes.disconnect();
    this._untheme();
  }
}
