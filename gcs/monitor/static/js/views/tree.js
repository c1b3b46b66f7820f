// Who owns which part of the web: the URL tree, what the last plans moved, and what the next one would.

import { fill, make, write } from "../dom.js";
import * as as from "../format.js";
import { TreeChart } from "../charts/treechart.js";
import { Resource } from "../data/resource.js";
import { called, owner, rooted, shares } from "../data/urltree.js";
import { card, nothing } from "../parts/card.js";
import { choices } from "../parts/choices.js";
import { ownerLegend } from "../parts/owners.js";
import { Table } from "../parts/table.js";
import { PlansCard } from "./plans.js";

export default {
  name: "tree",
  title: "URL tree",
  short: "Tree",
  icon: "M10 3v5M10 8H4.5v4M10 8h5.5v4M10 8v4M3 12h3v5H3zM8.5 12h3v5h-3zM14 12h3v5h-3z",
  mount: (context) => new Tree(context),
};

class Tree {
  constructor(context) {
    this._context = context;
    this._root = null;
    this._path = [];
    this._chart = new TreeChart({ owners: context.owners, zoom: (node) => this._zoom(node), tell });
    this._crumbs = make("ol", { class: "crumbs", "aria-label": "Where in the tree" });
    this._legend = make("div");
    this._note = make("p", { class: "small soft" });
    this._trouble = make("div");
    this._table = new Table({
      caption: "Parts of the web here",
      sort: 2,
      empty: "There is no plan yet: gatherers make the first one when they come together.",
      columns: [
        { label: "Part", head: true, value: (node) => node.listed.name, show: (node) => this._name(node) },
        { label: "Owner", value: (node) => owner(node.listed), show: (node) => this._owner(node) },
        {
          label: "Weight, URLs",
          end: true,
          value: (node) => node.listed.weight,
          show: (node) => as.count(node.listed.weight),
        },
        {
          label: "Queued",
          end: true,
          value: (node) => node.listed.queued,
          show: (node) => as.count(node.listed.queued),
        },
        {
          label: "Done",
          end: true,
          value: (node) => node.listed.done,
          show: (node) => as.count(node.listed.done),
        },
        { label: "Superpages", end: true, value: (node) => node.leaves().length },
      ],
    });
    this._hot = make("div");
    this._plans = new PlansCard(context);
    this.element = this._laidOut();
    this._resource = new Resource(context.feed, {
      path: "tree",
      version: "tree",
      show: (data) => this._show(data),
      fail: (sentence) => fill(this._trouble, make("p", { class: "notice" }, sentence)),
    });
  }

  _laidOut() {
    const shape = choices(
      "Shape",
      [
        ["treemap", "Treemap"],
        ["icicle", "Icicle"],
      ],
      "treemap",
      (value) => {
        this._chart.shape = value;
      },
    );
    return make(
      "div",
      {},
      this._trouble,
      make(
        "div",
        { class: "grid" },
        card(
          { title: "Superpages", tools: [shape], note: this._note },
          make("nav", { "aria-label": "Zoom" }, this._crumbs),
          this._chart.element,
          this._legend,
        ),
        card(
          { title: "Parts here", wide: "two-thirds", note: "Choose a part to zoom to it." },
          this._table.element,
        ),
        card({ title: "Hot tokens here", wide: "third", note: "What many URLs go through." }, this._hot),
        this._plans.elements,
      ),
    );
  }

  _show(data) {
    fill(this._trouble);
    this._data = data;
    const isSome = data.nodes.length > 0;
    write(
      this._note,
      isSome
        ? `${as.counted(data.superpages, "superpage")} as the plan of ${as.moment(data.at)} has them (${data.strategy}); the area is the weight, the colour and the name are the owner's.`
        : "There is no plan yet.",
    );
    this._chart.element.hidden = !isSome;
    if (!isSome) {
      this._table.rows = [];
      fill(this._hot, nothing("No plan, no tokens."));
      return;
    }
    this._context.owners.know(Object.keys(data.nodes[0].owners));
    const wanted = this._root ? this._focus.listed.name : "";
    this._root = rooted(data.nodes);
    this._zoom(this._root.find((node) => node.children && node.listed.name === wanted) ?? this._root);
    const legend = ownerLegend(this._context.owners, shares(data.nodes[0]), (name) => {
      this._chart.only = name;
    });
    fill(this._legend, legend);
  }

  _zoom(node) {
    this._focus = node;
    this._chart.show(node);
    this._table.rows = node.children ?? [];
    const path = node.ancestors().reverse();
    const crumbs = path.map((each) =>
      make(
        "li",
        {},
        make(
          "button",
          {
            type: "button",
            "aria-current": each === node ? "location" : null,
            onclick: () => this._zoom(each),
          },
          as.middle(called(each.listed), 40),
        ),
      ),
    );
    fill(this._crumbs, crumbs);
    this._showHot(node.listed.hot);
  }

  _showHot(hot) {
    const most = Math.max(1, ...hot.map(([, count]) => count));
    const rows = hot.map(([token, count]) => {
      const bar = make("i");
      bar.style.width = `${(count / most) * 100}%`;
      return make(
        "li",
        {},
        make("code", { class: "bar-name", title: token }, token || "(ends here)"),
        make("span", { class: "bar-track" }, bar),
        make("span", { class: "bar-value number" }, as.short(count)),
      );
    });
    fill(this._hot, rows.length ? make("ul", { class: "bars hot" }, rows) : nothing("No token here is hot."));
  }

  _name(node) {
    const text = called(node.listed);
    if (!node.children) return make("code", { title: node.listed.name }, text);
    return make(
      "button",
      { type: "button", class: "link", title: node.listed.name, onclick: () => this._zoom(node) },
      make("code", {}, text),
    );
  }

  _owner(node) {
    const all = shares(node.listed);
    if (!all.length) return "nobody";
    const [first] = all;
    const swatch = make("i", { class: "swatch" });
    swatch.style.background = this._context.owners.look(first.name).colour;
    const rest = all.length > 1 ? ` ${as.percent(first.share)}, ${all.length - 1} more` : "";
    return make("span", {}, swatch, first.name, make("span", { class: "soft" }, rest));
  }

  end() {
    this._resource.end();
    this._chart.end();
    this._plans.end();
  }
}

function tell(listed) {
  const owners = shares(listed);
  const names = owners
    .slice(0, 3)
    .map(({ name, share }) => (owners.length > 1 ? `${name} ${as.percent(share)}` : name));
  if (owners.length > 3) names.push(`${owners.length - 3} more`);
  return [
    as.middle(listed.name || called(listed), 90),
    `owner ${names.join(", ") || "nobody"}`,
    `weight ${as.count(listed.weight)} URLs: ${as.count(listed.queued)} queued, ${as.count(listed.done)} done`,
  ];
}
