// The table of gatherers: what each does, has, and needs.

import { make } from "../dom.js";
import * as as from "../format.js";
import { badge } from "../parts/badge.js";
import { Table } from "../parts/table.js";

/** @param {{owners: import("../palette.js").Owners}} context */
export function gatherersTable({ owners }) {
  const number = (label, name, show = as.count) => ({
    label,
    end: true,
    value: (row) => row[name],
    show: (row) => show(row[name]),
  });
  return new Table({
    caption: "Gatherers",
    sort: 0,
    descending: false,
    empty: ["No gatherer has been there yet: start one with ", make("code", {}, "gcs gatherer"), "."],
    columns: [
      { label: "Name", head: true, value: (row) => row.name, show: (row) => named(owners, row.name) },
      { label: "Standing", value: (row) => row.standing, show: standing },
      number("Pages/s", "pages_per_s", as.rate),
      number("Pages", "pages"),
      number("Queued", "queued"),
      number("T", "remaining_s", as.duration),
      number("Failed", "failed"),
      number("Outbox", "outbox"),
      { label: "Ranges", end: true, value: (row) => row.held, show: ranges },
      number("C", "overhead_percent", (value) =>
        typeof value === "number" ? `${value.toFixed(2)} %` : as.NONE,
      ),
      {
        label: "Heard",
        end: true,
        value: (row) => row.heard_s_ago,
        show: (row) => `${as.duration(row.heard_s_ago)} ago`,
      },
    ],
  });
}

function named(owners, name) {
  const swatch = make("i", { class: "swatch" });
  swatch.style.background = owners.look(name).colour;
  return make("span", {}, swatch, name);
}

function standing(row) {
  const asides = [
    row.waits_for_room && "no room on its disk",
    row.outbox_is_full && "its outbox is full",
    row.resting && `${as.counted(row.resting, "host")} resting`,
  ].filter(Boolean);
  return make(
    "span",
    {},
    badge(row.standing),
    make("span", { class: "soft small" }, asides.length ? ` ${asides.join(", ")}` : ""),
  );
}

function ranges(row) {
  const sum = (counts) => Object.values(counts).reduce((total, each) => total + each, 0);
  const [leaving, coming] = [sum(row.leaving), sum(row.coming)];
  return [as.count(row.held), leaving && `−${leaving} leaving`, coming && `+${coming} coming`]
    .filter(Boolean)
    .join(", ");
}
