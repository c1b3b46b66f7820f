// A button that changes something: asks first if that is wise, says that it works, and then what came of it.

import { send } from "../data/api.js";
import { fill, make } from "../dom.js";
import { duration } from "../format.js";
import { ask } from "./question.js";

const MINUTES_MS = 150_000;

/** Where the outcome of actions is said. */
export class Outcome {
  constructor() {
    this.element = make("div", { role: "status" });
  }

  say(look, ...lines) {
    fill(this.element, make("p", { class: `outcome ${look}` }, lines.join("\n")));
  }

  clear() {
    fill(this.element);
  }
}

/**
 * Do something and say what came of it; gives the answer, or null if it was refused.
 * @param {{path: string, body: any, outcome: Outcome, button?: any, question?: any, most?: number}} deed `most`
 *   says how many lines of the answer are for people here; what follows are tables for a terminal.
 */
export async function perform({ path, body, outcome, button, question, most = Infinity }) {
  if (question && !(await ask(question))) return null;
  const began = Date.now();
  const say = () => outcome.say("", `Working for ${duration(Math.round((Date.now() - began) / 1000))} …`);
  const timer = setInterval(say, 1000);
  if (button) button.disabled = true;
  outcome.say("", "Working …");
  try {
    const answer = await send(path, body, { patience_ms: MINUTES_MS });
    const lines = answer.lines.length ? answer.lines.slice(0, most) : ["Done."];
    outcome.say(answer.code === 0 ? "good" : "bad", ...lines);
    return answer;
  } catch (error) {
    outcome.say("bad", error.message);
    return null;
  } finally {
    clearInterval(timer);
    if (button) button.disabled = false;
  }
}

/** A button for those who may operate; for others it is there, and says why it cannot be used. */
export function actionButton({ mayOperate }, label, onclick, look = "") {
  const button = make(
    "button",
    { type: "button", class: `button ${look}`.trim(), disabled: !mayOperate },
    label,
  );
  if (!mayOperate) button.title = "You may look, but not operate: sign in with the operator's token.";
  button.addEventListener("click", () => onclick(button));
  return button;
}
