// Begins: finds out who looks, opens the feed, and shows the view that the address names.

import { send } from "./data/api.js";
import { Feed } from "./data/feed.js";
import { History } from "./data/history.js";
import { Frame } from "./frame.js";
import { Owners } from "./palette.js";
import { signedIn } from "./signin.js";
import * as theme from "./theme.js";

async function run() {
  theme.begin();
  const session = await signedIn(document.getElementById("door"));
  const feed = new Feed();
  const context = {
    feed,
    history: new History(feed),
    owners: new Owners(),
    session,
    mayOperate: session.role === "operate",
  };
  feed.on("gatherers", () => context.owners.know([...feed.gatherers.values()].map((each) => each.name)));
  feed.on("expired", () => location.reload());
  const frame = new Frame(context, {
    leave: async () => {
      feed.end();
      await send("session", {}, { method: "DELETE" }).catch(() => null);
      location.reload();
    },
  });
  feed.begin();
  frame.begin();
}

run();
