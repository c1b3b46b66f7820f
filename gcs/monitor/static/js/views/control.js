// What an operator can tell the crawl. Everything says what it will do before, and what came of it after.

import { fill, fresh, make } from "../dom.js";
import * as as from "../format.js";
import { actionButton, Outcome, perform } from "../parts/action.js";
import { card, nothing } from "../parts/card.js";
import { byName } from "../palette.js";

const MOST_SEEDS = 1000;

export default {
  name: "control",
  title: "Control",
  icon: "M4 3v6M4 13v4M10 3v2M10 9v8M16 3v8M16 15v2M2.5 11a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0zM8.5 7a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0zM14.5 13a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0z",
  mount: (context) => new Control(context),
};

class Control {
  constructor(context) {
    this._context = context;
    this._ruled = make("div");
    this._select = make("select", { id: fresh("gatherer"), disabled: !context.mayOperate });
    this.element = this._laidOut();
    const { feed } = context;
    this._off = [feed.on("overview", () => this._show()), feed.on("gatherers", () => this._showNames())];
    this._show();
    this._showNames();
  }

  _laidOut() {
    const { mayOperate } = this._context;
    const note = mayOperate
      ? null
      : make(
          "p",
          { class: "notice warn" },
          "You may look, but not operate: sign in with the operator's token to change anything.",
        );
    return make(
      "div",
      {},
      note,
      make(
        "div",
        { class: "grid" },
        card(
          {
            title: "The whole crawl",
            wide: "half",
            note: "Paused, gatherers begin no more fetches; nothing is lost.",
          },
          this._ruled,
          this._crawl(),
        ),
        card(
          {
            title: "One gatherer",
            wide: "half",
            note: "Drained, it gives everything to the others and leaves.",
          },
          this._gatherer(),
        ),
        card(
          {
            title: "Share the web out anew",
            wide: "half",
            note: "The URL tree shows what a plan would change before it is made.",
          },
          this._rebalance(),
        ),
        card(
          {
            title: "Add seeds",
            wide: "half",
            note: `URLs to begin with, one to a line, ${as.count(MOST_SEEDS)} at most.`,
          },
          this._seeds(),
        ),
        card(
          {
            title: "A host's delay",
            wide: "half",
            note: "The least time between two requests to it; empty is as configured.",
          },
          this._delay(),
        ),
        card(
          {
            title: "A host, or a part of one",
            wide: "half",
            note: "Blocked, its URLs are dropped; paused, they wait.",
          },
          this._host(),
        ),
      ),
    );
  }

  /** A button whose answer is said below it. */
  _act(outcome, label, deed, look) {
    return actionButton(
      this._context,
      label,
      (button) => {
        const wanted = deed();
        if (typeof wanted === "string") outcome.say("bad", wanted);
        else if (wanted) perform({ ...wanted, outcome, button });
      },
      look,
    );
  }

  _crawl() {
    const outcome = new Outcome();
    const body = { what: "crawl", name: "" };
    const pause = this._act(outcome, "Pause the crawl", () => ({
      path: "pause",
      body,
      question: {
        title: "Pause the crawl?",
        text: "No gatherer begins another fetch until somebody resumes it.",
        yes: "Pause",
      },
    }));
    const resume = this._act(outcome, "Resume", () => ({ path: "resume", body }), "main-act");
    return [make("div", { class: "row spaced-above" }, pause, resume), outcome.element];
  }

  _gatherer() {
    const outcome = new Outcome();
    const deed = (path, question) => () => {
      const name = this._select.value;
      if (!name) return "There is no gatherer to choose.";
      const body = path === "drain" ? { name } : { what: "gatherer", name };
      return { path, body, question: question && question(name) };
    };
    const pause = this._act(
      outcome,
      "Pause it",
      deed("pause", (name) => ({
        title: `Pause ${name}?`,
        text: "It begins no more fetches until somebody resumes it; what it owns waits.",
        yes: "Pause",
      })),
    );
    const resume = this._act(outcome, "Resume it", deed("resume"));
    const drain = this._act(
      outcome,
      "Drain it",
      deed("drain", (name) => ({
        title: `Drain ${name}?`,
        text: "It gives all it has to the other gatherers, and then leaves the crawl for good. This cannot be taken back.",
        yes: "Drain",
        grave: true,
      })),
      "grave",
    );
    const choose = make(
      "div",
      { class: "field grow" },
      make("label", { htmlFor: this._select.id }, "Gatherer"),
      this._select,
    );
    return [make("div", { class: "row" }, choose, pause, resume, drain), outcome.element];
  }

  _rebalance() {
    const outcome = new Outcome();
    const reason = this._input("Why; it is kept with the plan", { maxLength: 200 });
    const now = this._act(
      outcome,
      "Rebalance now",
      () => ({
        path: "rebalance",
        body: { reason: reason.input.value.trim(), method: "" },
        most: 2,
        question: {
          title: "Share the web out anew?",
          text: "Gatherers report what they have, one of them makes a plan, and ranges change hands. Crawling goes on meanwhile.",
          yes: "Rebalance",
        },
      }),
      "main-act",
    );
    return [make("div", { class: "row" }, reason.field, now), outcome.element];
  }

  _seeds() {
    const outcome = new Outcome();
    const id = fresh("seeds");
    const text = make("textarea", {
      id,
      rows: 4,
      spellcheck: false,
      placeholder: "https://example.org/",
      disabled: !this._context.mayOperate,
    });
    const add = this._act(
      outcome,
      "Add them",
      () => {
        const urls = text.value.split(/\s+/).filter(Boolean);
        if (!urls.length) return "Give at least one URL.";
        if (urls.length > MOST_SEEDS)
          return `Those are ${as.count(urls.length)}; ${as.count(MOST_SEEDS)} at most are taken at a time.`;
        return { path: "seeds", body: { urls } };
      },
      "main-act",
    );
    return [
      make("div", { class: "field" }, make("label", { htmlFor: id }, "URLs"), text),
      make("div", { class: "row spaced-above" }, add),
      outcome.element,
    ];
  }

  _delay() {
    const outcome = new Outcome();
    const host = this._input("Host", { placeholder: "www.example.org", spellcheck: false });
    const delay = this._input("Delay, seconds", {
      type: "number",
      min: 0,
      max: 86_400,
      step: "any",
      placeholder: "as configured",
    });
    delay.field.classList.add("narrow");
    const set = this._act(
      outcome,
      "Set it",
      () => {
        const name = host.input.value.trim();
        if (!name) return "Name a host.";
        if (!delay.input.checkValidity()) return "A delay is a number of seconds, from 0 to 86,400.";
        const delay_s = delay.input.value === "" ? null : Number(delay.input.value);
        return { path: "delay", body: { host: name, delay_s } };
      },
      "main-act",
    );
    return [make("div", { class: "row" }, host.field, delay.field, set), outcome.element];
  }

  _host() {
    const outcome = new Outcome();
    const what = this._input("Host, or URL with what is below it", {
      placeholder: "www.example.org",
      spellcheck: false,
    });
    const deed = (path, body, question) => () => {
      const text = what.input.value.trim();
      if (!text) return "Name a host or a URL.";
      return { path, body: body(text), question: question && question(text) };
    };
    const pause = this._act(
      outcome,
      "Pause",
      deed("pause", (name) => ({ what: "host", name })),
    );
    const resume = this._act(
      outcome,
      "Resume",
      deed("resume", (name) => ({ what: "host", name })),
    );
    const block = this._act(
      outcome,
      "Block",
      deed(
        "block",
        (text) => ({ what: text, for_s: null }),
        (text) => ({
          title: `Block ${as.middle(text, 60)}?`,
          text: "Its queued URLs are dropped when their turn comes, and new ones are not fetched. Unblocking does not bring back what was dropped.",
          yes: "Block",
          grave: true,
        }),
      ),
      "grave",
    );
    const unblock = this._act(
      outcome,
      "Unblock",
      deed("unblock", (text) => ({ what: text })),
    );
    return [make("div", { class: "row" }, what.field, pause, resume, block, unblock), outcome.element];
  }

  _input(label, properties) {
    const id = fresh("input");
    const input = make("input", { id, disabled: !this._context.mayOperate, ...properties });
    return {
      input,
      field: make("div", { class: "field grow" }, make("label", { htmlFor: id }, label), input),
    };
  }

  _show() {
    const paused = this._context.feed.overview?.paused ?? [];
    const key = JSON.stringify(paused);
    if (key === this._shown) return;
    this._shown = key;
    const lines = paused.map(({ who, by, since }) => {
      const whose = who === "all" ? "The crawl" : who;
      return make(
        "li",
        { class: "notice warn" },
        `${whose} is paused${by ? ` by ${by}` : ""}${since ? ` since ${as.moment(since)}` : ""}.`,
      );
    });
    fill(this._ruled, lines.length ? make("ul", {}, lines) : nothing("Nothing is paused."));
  }

  _showNames() {
    const names = [...this._context.feed.gatherers.values()]
      .filter((each) => !["left", "lost"].includes(each.standing))
      .map((each) => each.name)
      .sort(byName);
    if (names.join() === this._names) return;
    this._names = names.join();
    const chosen = this._select.value;
    fill(
      this._select,
      names.map((name) => make("option", { value: name, selected: name === chosen }, name)),
    );
  }

  end() {
    this._off.forEach((off) => off());
  }
}
