// What light and dark mean in a field of squares.

import { make } from "../dom.js";
import { steps } from "../palette.js";
import { Canvas } from "./canvas.js";

/** @param {string} least @param {string} most */
export function scaleLegend(least, most) {
  const canvas = new Canvas({ "aria-hidden": "true" }, (context, width, height) => {
    const all = steps();
    all.forEach((colour, at) => {
      context.fillStyle = colour;
      context.fillRect((at * width) / all.length, 0, width / all.length + 1, height);
    });
  });
  return make("span", { class: "scale" }, least, canvas.element, most);
}
