// A question that has to be answered before something is done.

import { fresh, make } from "../dom.js";

/**
 * @param {{title: string, text: any, yes: string, grave?: boolean}} question
 * @returns {Promise<boolean>} Whether the answer was yes.
 */
export function ask({ title, text, yes, grave = false }) {
  const [heading, body] = [fresh("ask"), fresh("ask")];
  return new Promise((resolve) => {
    const dialog = make(
      "dialog",
      { "aria-labelledby": heading, "aria-describedby": body, onclose: () => close() },
      make("h2", { id: heading }, title),
      make("p", { id: body, class: "soft" }, text),
      make(
        "form",
        { method: "dialog", class: "row" },
        make("button", { class: "button", value: "no" }, "Cancel"),
        make("button", { class: `button ${grave ? "grave" : "main-act"}`, value: "yes" }, yes),
      ),
    );
    function close() {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    }
    document.body.append(dialog);
    dialog.showModal();
  });
}
