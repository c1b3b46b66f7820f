// Where a URL stands, as the gatherers say it.

import { make } from "../dom.js";
import { badge } from "../parts/badge.js";
import { facts } from "../parts/card.js";

/** @param {Object<string, any>} found @param {string[]} lines What is said if nobody knows it. */
export function verdict(found, lines) {
  if (!found.state) return make("p", { class: "outcome" }, lines.join("\n"));
  const { url, state, next, ...rest } = found;
  const looks = { done: "good", queued: "info", dropped: "bad", passed: "info", unknown: "" };
  return make(
    "div",
    { class: "verdict" },
    make("p", {}, badge(state, looks[state] ?? ""), " ", next),
    facts([
      ["URL", make("span", { class: "url" }, url)],
      ...Object.entries(rest).map(([name, value]) => [name.replaceAll("_", " "), worded(value)]),
    ]),
  );
}

function worded(value) {
  if (Array.isArray(value)) return value.map(String).join(", ");
  if (value !== null && typeof value === "object") return JSON.stringify(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === null ? null : String(value);
}
