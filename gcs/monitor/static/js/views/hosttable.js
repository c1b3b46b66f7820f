// The table of hosts, in the order that was asked for.

import { make } from "../dom.js";
import * as as from "../format.js";
import { Table } from "../parts/table.js";

const SORTS = { slowest: 3, largest: 5, errors: 6, aside: 7 };

/** @param {string} order One of the keys above. */
export function hostsTable(order) {
  const wide = {
    slowest: "No host has answered yet.",
    largest: "No host has answered yet.",
    errors: "No host has failed.",
    aside: "No host is set aside: all that were asked may be asked again.",
  };
  return new Table({
    caption: "Hosts",
    sort: SORTS[order],
    empty: wide[order],
    columns: [
      {
        label: "Host",
        head: true,
        value: (row) => row.host,
        show: (row) => make("span", { class: "url" }, row.host),
      },
      { label: "Gatherer", value: (row) => row.gatherer },
      { label: "Mean", end: true, value: (row) => row.mean_s, show: (row) => as.duration(row.mean_s) },
      {
        label: "Slowest",
        end: true,
        value: (row) => row.slowest_s,
        show: (row) => as.duration(row.slowest_s),
      },
      { label: "Pages", end: true, value: (row) => row.pages, show: (row) => as.count(row.pages) },
      { label: "Size", end: true, value: (row) => row.bytes, show: (row) => as.size(row.bytes) },
      { label: "Errors", end: true, value: (row) => row.errors, show: (row) => as.count(row.errors) },
      {
        label: "Set aside until",
        value: (row) => row.aside_until ?? 0,
        show: (row) => (row.aside_until ? as.moment(row.aside_until) : null),
      },
      { label: "Last error", wide: true, value: (row) => row.reason, show: (row) => row.reason || null },
      {
        label: "Delay set",
        end: true,
        value: (row) => row.delay_s,
        show: (row) => (row.delay_s === null ? null : as.duration(row.delay_s)),
      },
    ],
  });
}
