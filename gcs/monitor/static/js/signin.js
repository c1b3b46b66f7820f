// The door: a token, from the link that the monitor printed or typed in, opens a session.

import { get, send } from "./data/api.js";
import { fill, fresh, make, write } from "./dom.js";
import { place } from "./router.js";

const AGAIN_MS = 3000;

/**
 * Who looks; asks for the token until there is a session.
 * @param {HTMLElement} door
 */
export async function signedIn(door) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // The token is not left in the history of the browser.
    window.history.replaceState(null, "", "#/overview");
    const session = await send("session", { token }).catch((error) => asked(door, error.message));
    return opened(door, session);
  }
  for (;;) {
    try {
      const session = await get("session");
      return opened(door, session.role ? session : await asked(door, "", session.crawl));
    } catch (error) {
      fill(door, unreachable(error.message));
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

function opened(door, session) {
  fill(door);
  if (!place().name) window.history.replaceState(null, "", "#/overview");
  return session;
}

const unreachable = (sentence) =>
  make(
    "main",
    { class: "door" },
    make("img", { src: "static/icon.svg", alt: "", width: 44, height: 44 }),
    make("h1", {}, "The monitor is away"),
    make(
      "p",
      { class: "soft", role: "status" },
      `${sentence} This page tries again every ${AGAIN_MS / 1000} s.`,
    ),
  );

function asked(door, complaint, crawl = "") {
  const [id, said] = [fresh("token"), fresh("said")];
  return new Promise((resolve) => {
    const input = make("input", {
      id,
      type: "password",
      autocomplete: "current-password",
      required: true,
      spellcheck: false,
      "aria-describedby": said,
    });
    const button = make("button", { class: "button main-act" }, "Sign in");
    const outcome = make("p", { id: said, class: "bad", role: "alert" }, complaint);
    const form = make(
      "form",
      { class: "door", onsubmit: (event) => enter(event) },
      make("img", { src: "static/icon.svg", alt: "", width: 44, height: 44 }),
      make("h1", {}, crawl ? `Sign in to ${crawl}` : "Sign in"),
      make(
        "p",
        { class: "soft" },
        "Open the link that ",
        make("code", {}, "gcs monitor"),
        " printed when it started, or give its token here.",
      ),
      make("div", { class: "field" }, make("label", { htmlFor: id }, "Token"), input),
      outcome,
      button,
    );
    async function enter(event) {
      event.preventDefault();
      button.disabled = true;
      try {
        resolve(await send("session", { token: input.value.trim() }));
      } catch (error) {
        write(outcome, error.message);
        button.disabled = false;
        input.focus();
        input.select();
      }
    }
    fill(door, make("main", {}, form));
    input.focus();
  });
}
