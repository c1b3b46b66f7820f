// The table of helpers: who is invited, who is there, and who is trusted.

import { make } from "../dom.js";
import * as as from "../format.js";
import { badge } from "../parts/badge.js";
import { Table } from "../parts/table.js";

export function helpersTable() {
  return new Table({
    caption: "Helpers",
    sort: 0,
    descending: false,
    empty: ["Nobody is invited to help; ", make("code", {}, "gcs helper invite"), " does that."],
    columns: [
      { label: "Helper", head: true, value: (row) => row.helper },
      { label: "Site", value: (row) => row.site || "a stranger" },
      {
        label: "Is",
        value: (row) => (row.present ? "there" : "away"),
        show: (row) => badge(row.present ? "there" : "away"),
      },
      {
        label: "Trust",
        value: (row) => trust(row).rank,
        show: (row) => badge(trust(row).text, trust(row).look),
      },
      { label: "Pages", end: true, value: (row) => row.pages, show: (row) => as.count(row.pages) },
      { label: "Says", wide: true, value: (row) => row.says },
    ],
  });
}

/** What gatherers think of a helper: a sentence, how it looks, and what to sort by. */
function trust(row) {
  const barred = row.trust.filter((each) => each.barred).map((each) => each.gatherer);
  if (barred.length) return { text: `barred by ${barred.join(", ")}`, look: "bad", rank: -1 };
  if (!row.trust.length) return { text: "need not be earned", look: "", rank: Infinity };
  const least = Math.min(...row.trust.map((each) => each.consistent));
  const wrong = row.trust.reduce((sum, each) => sum + each.wrong, 0);
  const look = wrong ? "warn" : least ? "good" : "";
  return { text: `${as.count(least)} right in a row, ${as.count(wrong)} wrong`, look, rank: least };
}
