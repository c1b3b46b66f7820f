// What the last plans did, what the next one would do, and the button that makes it.

import { fill, make } from "../dom.js";
import * as as from "../format.js";
import { Resource } from "../data/resource.js";
import { actionButton, Outcome, perform } from "../parts/action.js";
import { card, facts, nothing } from "../parts/card.js";
import { Table } from "../parts/table.js";

export class PlansCard {
  constructor(context) {
    this._context = context;
    this._list = make("div");
    this._detail = make("div");
    this._outcome = new Outcome();
    this._foreseen = make("div");
    this._chosen = 0;
    const dry = actionButton(context, "See what it would do", (button) => this._foresee(button));
    const now = actionButton(context, "Rebalance now", (button) => this._rebalance(button), "main-act");
    this.elements = [
      card(
        { title: "Last plans", wide: "half", note: "Newest first; choose one to see what it changed." },
        this._list,
      ),
      card({ title: "What it changed", wide: "half" }, this._detail),
      card(
        {
          title: "The next plan",
          note: "A dry run asks one gatherer what a plan would be now; nothing is changed.",
        },
        make("div", { class: "row" }, dry, now),
        this._outcome.element,
        this._foreseen,
      ),
    ];
    this._resource = new Resource(context.feed, {
      path: "plans",
      version: "plans",
      show: ({ plans }) => this._show(plans),
      fail: (sentence) => fill(this._list, nothing(sentence)),
    });
  }

  _show(plans) {
    this._plans = plans;
    if (!plans.length) {
      fill(this._list, nothing("No plan has been made yet."));
      fill(this._detail, nothing("Nothing has been moved."));
      return;
    }
    const buttons = plans.map((plan, at) =>
      make(
        "button",
        { type: "button", "aria-pressed": "false", onclick: () => this._choose(at) },
        make("span", { class: "number soft" }, as.moment(plan.at)),
        make("span", { class: "reason" }, plan.because),
        make(
          "span",
          { class: "number soft" },
          `${as.counted(plan.ranges, "range")}, ${as.short(plan.urls)} URLs`,
        ),
      ),
    );
    fill(this._list, make("div", { class: "plans" }, buttons));
    this._choose(Math.min(this._chosen, plans.length - 1));
  }

  _choose(at) {
    this._chosen = at;
    [...this._list.querySelectorAll("button")].forEach((button, each) =>
      button.setAttribute("aria-pressed", String(each === at)),
    );
    const plan = this._plans[at];
    const moves = plan.moves.map(
      ({ from, to, ranges }) => `${from || "nobody"} → ${to}: ${as.counted(ranges, "range")}`,
    );
    fill(
      this._detail,
      facts([
        ["Longest T", bounded(plan)],
        ["Method", `partition ${plan.method}, ${as.counted(plan.superpages, "superpage")}, ${plan.strategy}`],
        ["Links cut", as.count(plan.links_cut)],
        ["Moved", moves.slice(0, 6).join("; ") || (plan.ranges ? "not watched" : "nothing")],
      ]),
      timesChart(plan.times, plan.bound_s),
    );
  }

  async _foresee(button) {
    fill(this._foreseen);
    const body = { method: "" };
    const answer = await perform({ path: "plans/dry-run", body, outcome: this._outcome, button, most: 2 });
    if (answer?.code === 0) fill(this._foreseen, foreseen(answer.facts, this._context.feed));
  }

  async _rebalance(button) {
    fill(this._foreseen);
    await perform({
      path: "rebalance",
      body: { reason: "from the web page", method: "" },
      outcome: this._outcome,
      button,
      most: 2,
      question: {
        title: "Share the web out anew?",
        text: "Gatherers report what they have, one of them makes a plan, and ranges change hands. Crawling goes on meanwhile.",
        yes: "Rebalance",
      },
    });
    this._resource.refresh();
  }

  end() {
    this._resource.end();
  }
}

const bounded = ({ longest_s: longest, bound_s: bound, over_bound: over }) =>
  over === null || over === undefined
    ? "not known"
    : `${as.duration(longest)}, ${over.toFixed(2)} times the lower bound of ${as.duration(bound)}`;

/** T per gatherer, before and after, on one scale with the bound. */
function timesChart(times, bound_s) {
  if (!times?.length) return nothing("This plan foretold no times.");
  const most = Math.max(
    bound_s ?? 0,
    ...times.flatMap((each) => [each.before_s ?? 0, each.after_s ?? 0]),
    1e-9,
  );
  const bar = (kind, seconds) => {
    const element = make("i", { class: kind });
    element.style.width = seconds === null || seconds === undefined ? "0" : `${(seconds / most) * 100}%`;
    return element;
  };
  const rows = times.map((each) => {
    const mark = make("i", { class: "bound" });
    mark.style.left = `${((bound_s ?? 0) / most) * 100}%`;
    const track = make(
      "span",
      { class: "times-track" },
      bar("before", each.before_s),
      bar("after", each.after_s),
      mark,
    );
    const text = `${as.duration(each.before_s)} → ${as.duration(each.after_s)}`;
    return make(
      "li",
      {},
      make("span", { class: "bar-name" }, each.gatherer),
      track,
      make("span", { class: "end small" }, text),
    );
  });
  const key = (kind, name) => make("span", {}, make("i", { class: `key ${kind}` }), name);
  return make(
    "div",
    { class: "times" },
    make(
      "div",
      { class: "legend" },
      key("before", "T before"),
      key("after", "T after"),
      key("bound", "lower bound"),
    ),
    make("ul", { tabIndex: 0, "aria-label": "T by gatherer" }, rows),
  );
}

function foreseen(found, feed) {
  const now = new Map([...feed.gatherers.values()].map((each) => [each.name, each.remaining_s]));
  const times = Object.entries(found.remaining_s).map(([gatherer, after_s]) => ({
    gatherer,
    before_s: now.get(gatherer) ?? null,
    after_s,
  }));
  const moves = new Table({
    caption: "What would change hands",
    sort: -1,
    empty: "Nothing would change hands.",
    columns: [
      {
        label: "Range from",
        head: true,
        value: (move) => move.from,
        show: (move) => make("code", {}, move.from || "the beginning"),
      },
      { label: "Holder", value: (move) => move.holder ?? "nobody" },
      { label: "New owner", value: (move) => move.owner },
    ],
  });
  moves.rows = found.moves;
  const longest = Math.max(0, ...times.map((each) => each.after_s));
  return make(
    "div",
    { class: "foreseen" },
    make("div", {}, make("h3", {}, "T by gatherer"), timesChart(times, found.bound_s)),
    make(
      "div",
      {},
      make("h3", {}, "What would change hands"),
      facts([
        ["Longest T", bounded({ longest_s: longest, bound_s: found.bound_s, over_bound: found.over_bound })],
        ["URLs moved", as.count(found.urls_moved)],
        ["Links cut", as.count(found.links_cut)],
      ]),
      moves.element,
    ),
  );
}
