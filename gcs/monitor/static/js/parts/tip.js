// What is under the pointer, in words; what charts draw on a canvas cannot say it themselves.

import { fill, make } from "../dom.js";

let element = null;

/** Show lines beside a point of the window; the first is the heading. */
export function tip(x, y, lines) {
  if (!element) {
    element = make("div", { class: "tip", "aria-hidden": "true" });
    document.body.append(element);
  }
  const [first, ...rest] = lines;
  fill(
    element,
    make("strong", {}, first),
    rest.map((line) => make("div", {}, line)),
  );
  element.hidden = false;
  const { width, height } = element.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? Math.max(4, x - width - 10) : x + 14;
  const top = y + 16 + height > innerHeight ? Math.max(4, y - height - 10) : y + 16;
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
}

export function untip() {
  if (element) element.hidden = true;
}
