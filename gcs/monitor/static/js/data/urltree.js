// The URL tree of a plan, as the monitor lists it: parents before children, each with its number.

/* global d3 */

import { byName } from "../palette.js";

/**
 * @typedef {{parent: number|null, kind: string, label: string, name: string, weight: number, queued: number,
 *   done: number, owners: Object<string, number>, hot: [string, number][]}} Listed
 */

/** A d3 hierarchy over the list; only superpages weigh, nodes are the sum of what is below them. */
export function rooted(/** @type {Listed[]} */ nodes) {
  const children = nodes.map(() => []);
  nodes.forEach((node, at) => node.parent !== null && children[node.parent].push(at));
  const root = d3.hierarchy(0, (at) => children[at]);
  root.each((each) => {
    each.listed = nodes[each.data];
    each.number = each.data;
  });
  // Something has to be seen of what weighs nothing yet.
  const least = Math.max(1e-9, nodes[0]?.weight ?? 0) / 20_000;
  root.sum((at) => (children[at].length ? 0 : Math.max(least, nodes[at].weight)));
  return root;
}

/** Who has most of it. */
export function owner(listed) {
  let best = "";
  for (const [name, weight] of Object.entries(listed.owners)) if (!best || weight > listed.owners[best]) best = name;
  return best;
}

/** Owners with their shares of the weight, the largest first. */
export function shares(listed) {
  const total = Object.values(listed.owners).reduce((sum, weight) => sum + weight, 0) || 1;
  return Object.entries(listed.owners)
    .map(([name, weight]) => ({ name, share: weight / total }))
    .sort((one, two) => two.share - one.share || byName(one.name, two.name));
}

/** What a node is called on its own; the root has no token. */
export const called = (listed) => listed.label || (listed.parent === null ? "all URLs" : "(here)");
