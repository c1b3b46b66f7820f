// The URL tree of a plan, as the monitor lists it: parents before children, each with its number.

/* global d3 */

import { byName } from "../palette.js";

/**
 * @typedef {{parent: number|null, kind: string, label: string, name: string, weight: number, queued: number,
 *   done: number, owners: Object<string, number>, hot: [string, number][]}} Listed
 */

/**
 * A d3 hierarchy over the list; only superpages weigh, nodes are the sum of what is below them. A superpage
 * without weight beside others is left out, and a node with one child is one with it: few parts of the web
 * branch at every step.
 */
export function rooted(/** @type {Listed[]} */ nodes) {
  const children = nodes.map(() => []);
  nodes.forEach((node, at) => {
    if (node.parent !== null && (node.kind === "node" || node.weight > 0)) children[node.parent].push(at);
  });
  const root = d3.hierarchy(settled(nodes, children, 0), ({ at }) =>
    children[at].map((each) => settled(nodes, children, each)),
  );
  root.each((each) => {
    each.listed = each.data.listed;
  });
  // Something has to be seen of what weighs nothing yet.
  const least = Math.max(1e-9, nodes[0]?.weight ?? 0) / 20_000;
  root.sum(({ at }) => (children[at].length ? 0 : Math.max(least, nodes[at].weight)));
  return root;
}

/** A node, or what it leads to if it leads to one thing only, with all their labels. */
function settled(nodes, children, first) {
  let at = first;
  let label = nodes[at].label;
  let { hot } = nodes[at];
  while (children[at].length === 1) {
    const [next] = children[at];
    if (nodes[next].kind === "node") label += joint(nodes[at], nodes[next]) + nodes[next].label;
    else if (nodes[next].label.startsWith("[")) label += ` ${nodes[next].label}`;
    at = next;
    if (nodes[at].hot.length) ({ hot } = nodes[at]);
  }
  return { at, listed: { ...nodes[at], parent: nodes[first].parent, label, hot } };
}

/** What stands between two tokens: names of hosts have commas, paths have slashes. */
function joint(above, below) {
  if (below.label.startsWith(")") || above.parent === null) return "";
  return above.name.includes(")") ? "/" : ",";
}

/** Who has most of it. */
export function owner(listed) {
  let best = "";
  for (const [name, weight] of Object.entries(listed.owners))
    if (!best || weight > listed.owners[best]) best = name;
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
export const called = (listed) => (listed.parent === null ? "all URLs" : listed.label || "(here)");
