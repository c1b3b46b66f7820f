// The URL tree as a treemap or an icicle on a canvas: zoomed by click or key, coloured by owner, sized by weight.

/* global d3 */

import { called, owner } from "../data/urltree.js";
import { paint } from "../palette.js";
import { font, isDark, token } from "../theme.js";
import { clipped } from "./heatmap.js";
import { MarkedChart } from "./marked.js";

const HEAD_PX = 18;
const ROW_PX = 46;

export class TreeChart extends MarkedChart {
  /**
   * @param {{owners: import("../palette.js").Owners, zoom: (node: any) => void, tell: (listed: any) => string[]}} options
   */
  constructor({ owners, zoom, tell }) {
    super({
      box: "tree-box",
      canvas: "tree",
      role: "URL tree",
      label:
        "URL tree. Left and right go to neighbours, down goes inside, up or Escape goes out. The table below has the same.",
    });
    Object.assign(this, { _owners: owners, _zoomed: zoom, _tell: tell, _shape: "treemap", _only: "" });
    this._focus = null;
    this._boxes = [];
    // All but the mark: where one points changes far more often than what is there.
    this._picture = new OffscreenCanvas(1, 1);
  }

  /** Show what is below a node. */
  show(node) {
    this._focus = node;
    this._at = null;
    this._laid = "";
    this._painted = "";
    this._canvas.draw();
  }

  /** "treemap" or "icicle". */
  set shape(shape) {
    this._shape = shape;
    this._at = null;
    this._boxes = [];
    this._laid = "";
    this._canvas.draw();
  }

  /** Show only one owner's in colour; "" all. */
  set only(name) {
    this._only = name;
    this._canvas.draw();
  }

  /** Where everything is; kept until the node, the shape or the size is another one. */
  _lay(width, height) {
    const key = `${this._shape} ${width} ${height}`;
    if (this._laid === key || !this._focus) return;
    this._laid = key;
    // A layout gives places below the node that is its root, so what is zoomed to becomes one.
    const top = this._focus;
    const root = top.copy();
    if (this._shape === "treemap") {
      const lay = d3.treemap().size([width, height]).paddingInner(1).paddingOuter(2).round(true);
      lay.paddingTop((node) => (node.depth > 0 && node.children && node.x1 - node.x0 > 46 ? HEAD_PX : 2))(
        root,
      );
    } else {
      const rows = Math.min(root.height + 1, Math.max(2, Math.floor(height / ROW_PX)));
      d3
        .partition()
        .size([width, (height / rows) * (root.height + 1)])
        .padding(1)(root);
    }
    const found = [];
    const collect = (laid, node, depth) => {
      if (laid.y0 >= height || laid.x1 - laid.x0 < 0.6 || laid.y1 - laid.y0 < 0.6) return;
      found.push({ node, depth, x0: laid.x0, y0: laid.y0, x1: laid.x1, y1: laid.y1, isLeaf: !laid.children });
      laid.children?.forEach((child, at) => collect(child, node.children[at], depth + 1));
    };
    collect(root, top, 0);
    this._boxes = found;
  }

  _paint(context, width, height) {
    this._lay(width, height);
    const key = `${this._laid} ${this._only} ${isDark()}`;
    const picture = this._picture;
    if (key === this._painted) {
      context.drawImage(picture, 0, 0, width, height);
    } else {
      context.font = font(12);
      context.textBaseline = "middle";
      for (const box of this._boxes) this._box(context, box);
      Object.assign(picture, { width: context.canvas.width, height: context.canvas.height });
      picture.getContext("2d").drawImage(context.canvas, 0, 0);
      this._painted = key;
    }
    if (this._at) {
      const { x0, y0, x1, y1 } = this._at;
      context.strokeStyle = token("--ink");
      context.lineWidth = 2.5;
      context.strokeRect(x0 + 1, y0 + 1, x1 - x0 - 2, y1 - y0 - 2);
    }
  }

  _box(context, { node, depth, x0, y0, x1, y1, isLeaf }) {
    const [width, height] = [x1 - x0, y1 - y0];
    const name = owner(node.listed);
    const look = this._owners.look(name);
    const isIcicle = this._shape === "icicle";
    const isOff = this._only && !(this._only in node.listed.owners);
    context.globalAlpha = isOff ? 0.14 : 1;
    let ink = look.ink;
    if (isLeaf || isIcicle) {
      paint(context, look, x0, y0, width, height);
      if (isIcicle && !isLeaf) {
        context.fillStyle = token("--card");
        context.globalAlpha *= 0.72;
        context.fillRect(x0, y0, width, height);
        context.globalAlpha = isOff ? 0.3 : 1;
        ink = token("--ink");
      }
    } else {
      context.fillStyle = depth % 2 ? token("--sunk") : token("--hover");
      context.fillRect(x0, y0, width, height);
      ink = token("--ink");
    }
    context.globalAlpha = isOff ? 0.45 : 1;
    const isHead = node === this._focus && !isIcicle;
    if (width > 34 && height > 13 && !isHead)
      this._label(context, node, name, ink, { x0, y0, width, height, isLeaf });
    context.globalAlpha = 1;
  }

  _label(context, node, name, ink, { x0, y0, width, height, isLeaf }) {
    const text = called(node.listed);
    const isTwo = (isLeaf || this._shape === "icicle") && height > 32;
    context.fillStyle = ink;
    context.fillText(clipped(context, text, width - 8), x0 + 4, y0 + (isTwo ? 10 : Math.min(height / 2, 10)));
    if (isTwo) {
      context.globalAlpha *= 0.85;
      context.fillText(clipped(context, name, width - 8), x0 + 4, y0 + 25);
    }
  }

  // The pointer and the keys

  _found(event) {
    const box = this._canvas.element.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    for (let at = this._boxes.length - 1; at >= 0; at -= 1) {
      const each = this._boxes[at];
      if (x >= each.x0 && x < each.x1 && y >= each.y0 && y < each.y1) return each;
    }
    return null;
  }

  _point(event) {
    const found = this._found(event);
    if (found) this._mark(found, event.clientX, event.clientY, this._tell(found.node.listed));
    else this._leave();
  }

  /** A click goes one level inside, towards what was clicked; on the head of all, one level out. */
  _click(event) {
    const found = this._found(event);
    if (!found) return;
    this._into(found.node);
  }

  _into(node) {
    if (node === this._focus) {
      if (node.parent) this._zoomed(node.parent);
      return;
    }
    let step = node;
    while (step.parent !== this._focus) step = step.parent;
    if (step.children) this._zoomed(step);
  }

  _key(event) {
    const boxes = this._boxes;
    if (!boxes.length) return;
    const top = this._focus;
    const current = this._at?.node ?? top;
    const around = current.parent && current !== top ? current.parent.children : [current];
    const at = around.indexOf(current);
    const moves = {
      ArrowRight: () => around[Math.min(around.length - 1, at + 1)],
      ArrowLeft: () => around[Math.max(0, at - 1)],
      ArrowDown: () => current.children?.[0] ?? current,
      ArrowUp: () => (current === top ? top : current.parent),
      Home: () => around[0],
      End: () => around.at(-1),
    };
    if (event.key === "Enter" && current.children)
      this._zoomed(current === top && top.parent ? top.parent : current);
    else if ((event.key === "Escape" || event.key === "Backspace") && top.parent) this._zoomed(top.parent);
    else if (moves[event.key]) this._step(moves[event.key]());
    else return;
    event.preventDefault();
  }

  _step(node) {
    const box = this._boxes.find((each) => each.node === node);
    const lines = this._tell(node.listed);
    this._say(lines);
    if (!box) return;
    const { left, top } = this._canvas.element.getBoundingClientRect();
    this._mark(box, left + box.x0, top + box.y1, lines);
  }
}
