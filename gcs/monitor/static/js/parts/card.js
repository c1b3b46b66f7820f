// A card: a heading, what stands beside it, and what it is about.

import { fresh, make } from "../dom.js";

/**
 * @param {{title: string, note?: any, tools?: any[], wide?: string}} options
 * @param {...any} children
 */
export function card({ title, note, tools = [], wide = "" }, ...children) {
  const id = fresh("card");
  return make(
    "section",
    { class: `card ${wide}`.trim(), "aria-labelledby": id },
    make("div", { class: "card-head" }, make("h2", { id }, title), tools, note ? make("p", {}, note) : null),
    children,
  );
}

/** Nothing to show, and why. */
export const nothing = (why) => make("p", { class: "empty" }, why);

/** Names and values. */
export const facts = (pairs) =>
  make(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
