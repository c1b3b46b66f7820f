// Who has which colour, and a way to see only one of them.

import { make } from "../dom.js";
import { percent } from "../format.js";
import { paint } from "../palette.js";
import { Canvas } from "../charts/canvas.js";

/**
 * @param {import("../palette.js").Owners} owners
 * @param {{name: string, share: number}[]} shares
 * @param {(name: string) => void} onchoose With "" when all are to be seen.
 */
export function ownerLegend(owners, shares, onchoose) {
  let chosen = "";
  const buttons = new Map();
  function choose(name) {
    chosen = chosen === name ? "" : name;
    for (const [each, button] of buttons) button.setAttribute("aria-pressed", String(each === chosen));
    onchoose(chosen);
  }
  for (const { name, share } of shares) {
    const button = make(
      "button",
      { type: "button", "aria-pressed": "false", onclick: () => choose(name) },
      swatch(owners.look(name)),
      `${name} `,
      make("span", { class: "soft number" }, ` ${percent(share)}`),
    );
    buttons.set(name, button);
  }
  return make("div", { class: "legend owners", role: "group", "aria-label": "Show only one owner's" }, [
    ...buttons.values(),
  ]);
}

function swatch(look) {
  const canvas = new Canvas({ class: "swatch", "aria-hidden": "true" }, (context, width, height) =>
    paint(context, look, 0, 0, width, height),
  );
  return canvas.element;
}
