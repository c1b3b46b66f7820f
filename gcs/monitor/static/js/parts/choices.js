// A few choices, one of which holds.

import { make } from "../dom.js";

/**
 * @param {string} label What is chosen.
 * @param {[string, string][]} options Values and what they are called.
 * @param {string} chosen
 * @param {(value: string) => void} onchoose
 */
export function choices(label, options, chosen, onchoose) {
  const buttons = options.map(([value, name]) =>
    make(
      "button",
      { type: "button", "aria-pressed": String(value === chosen), onclick: () => choose(value) },
      name,
    ),
  );
  function choose(value) {
    options.forEach(([each], at) => buttons[at].setAttribute("aria-pressed", String(each === value)));
    onchoose(value);
  }
  return make("div", { class: "choices", role: "group", "aria-label": label }, buttons);
}
