// How far the crawl has come: done and known on a scale that reaches to the end that is expected.

import { make, write } from "../dom.js";
import { count, percent, short } from "../format.js";

export class ProgressBar {
  constructor() {
    this._share = make("strong", { class: "number" });
    this._sentence = make("p", { class: "soft" });
    this._done = make("i", { class: "done" });
    this._known = make("i", { class: "known" });
    this._range = make("i", { class: "range" });
    this._track = make(
      "div",
      {
        class: "progress-track",
        role: "progressbar",
        "aria-label": "Share of the crawl that is done",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      },
      this._known,
      this._done,
      this._range,
    );
    this._values = {
      done: make("b", { class: "number" }),
      known: make("b", { class: "number" }),
      expected: make("b", { class: "number" }),
    };
    this._expected = this._key("range", "Expected in all", this._values.expected);
    this.element = make(
      "div",
      { class: "progress" },
      make("div", { class: "progress-head" }, this._share, this._sentence),
      this._track,
      make(
        "div",
        { class: "legend" },
        this._key("done", "Done", this._values.done),
        this._key("known", "Known", this._values.known),
        this._expected,
      ),
    );
  }

  _key(kind, name, value) {
    return make("span", {}, make("i", { class: `key ${kind}` }), `${name} `, value);
  }

  show(progress, state) {
    const { done, known, expected, expected_low: low, expected_high: high } = progress;
    const isOver = state === "finished" || state === "caught up";
    const share = isOver ? 1 : (progress.share ?? (known ? done / known : 0));
    const full = Math.max(known, high ?? expected ?? 0, 1);
    const at = (value) => `${Math.min(100, (value / full) * 100)}%`;
    write(this._share, percent(share));
    write(this._sentence, progress.sentence);
    this._done.style.width = at(done);
    this._known.style.width = at(known);
    const isRange = low !== null && expected !== null && !isOver;
    this._range.hidden = !isRange;
    this._expected.hidden = !isRange;
    if (isRange) {
      this._range.style.left = at(low);
      this._range.style.width = `${Math.max(0.5, (((high ?? full) - low) / full) * 100)}%`;
      write(
        this._values.expected,
        high === null ? `${short(low)} or more` : `${short(low)} – ${short(high)}`,
      );
    }
    write(this._values.done, count(done));
    write(this._values.known, count(known));
    this._track.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    this._track.setAttribute("aria-valuetext", progress.sentence || percent(share));
  }
}
