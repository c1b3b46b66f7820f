// The log of events: when, and a sentence.

import { make } from "../dom.js";
import { moment } from "../format.js";
import { nothing } from "./card.js";

const MARKS = { info: "", warning: "Warning: ", error: "Error: " };

/** @param {{id: number, at: number, level: string, sentence: string}[]} events newest first */
export function eventList(events) {
  if (!events.length) return nothing("Nothing has happened since the monitor began.");
  const rows = events.map((each) =>
    make(
      "li",
      { class: each.level },
      make(
        "time",
        { class: "soft number", dateTime: new Date(each.at * 1000).toISOString() },
        moment(each.at),
      ),
      make("span", {}, MARKS[each.level] ?? "", each.sentence),
    ),
  );
  return make("ol", { class: "events" }, rows);
}
