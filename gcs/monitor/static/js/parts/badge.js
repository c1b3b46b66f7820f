// A state in a word, with a shape and a colour that say the same.

import { draw, make } from "../dom.js";

const SHAPES = {
  good: "M2.5 8.5l3.5 3.5 7.5-8",
  info: "M4 3l9 5-9 5z",
  warn: "M5 3v10M11 3v10",
  bad: "M8 2v7M8 12.5v1",
  "": "M3 8h10",
};

const LOOKS = {
  crawling: "info",
  finished: "good",
  "caught up": "good",
  paused: "warn",
  waiting: "warn",
  stuck: "bad",
  silent: "bad",
  lost: "bad",
  draining: "warn",
  there: "good",
  trusted: "good",
  barred: "bad",
};

/** @param {string} word @param {string} [look] one of good, info, warn, bad */
export function badge(word, look = LOOKS[word] ?? "") {
  const filled = look === "info";
  const path = draw("path", {
    d: SHAPES[look],
    fill: filled ? "currentColor" : "none",
    stroke: filled ? "none" : "currentColor",
    "stroke-width": 2.4,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  });
  return make(
    "span",
    { class: `badge ${look}`.trim() },
    draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path),
    word,
  );
}
