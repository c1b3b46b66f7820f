// A text with some of it marked; ranges count characters as Python does, not UTF-16 units.

import { make } from "../dom.js";

/** @param {string} text @param {number[][]} ranges @returns {any[]} Texts and marks, in order. */
export function marked(text, ranges) {
  const characters = [...text];
  const piece = (start, end) => characters.slice(start, end).join("");
  const parts = [];
  let at = 0;
  for (const [start, end] of ranges) {
    parts.push(piece(at, start), make("mark", {}, piece(start, end)));
    at = end;
  }
  parts.push(piece(at));
  return parts;
}
