// Colours that people with any colour vision can tell apart, and ways to tell things apart without colour.

// Okabe and Ito's set without black and yellow, which vanish on one of the two themes, and two of Tol's.
const OWNERS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a68b5", "#999933"];
const STEPS_LIGHT = ["#f0f4f6", "#d3e5ee", "#a9cfe2", "#75b2d0", "#4091b8", "#1a6f98", "#074d70", "#032f47"];
const STEPS_DARK = ["#1c262e", "#1d3a4a", "#1b5068", "#196a88", "#2387a9", "#44a7c7", "#7fc8de", "#c4e8f2"];

import { isDark } from "./theme.js";

/**
 * How owners look: in the order of their names, so that a colour stays while nobody joins or leaves.
 * The ninth has the first one's colour again, with stripes; names are shown beside colours everywhere.
 */
export class Owners {
  constructor() {
    this._index = new Map();
  }

  /** Say who there is; known names keep their look. */
  know(names) {
    for (const name of [...names].sort(byName)) {
      if (!this._index.has(name)) this._index.set(name, this._index.size);
    }
  }

  /** @returns {{colour: string, stripes: number, ink: string}} */
  look(name) {
    if (!this._index.has(name)) this.know([name]);
    const index = this._index.get(name);
    const colour = OWNERS[index % OWNERS.length];
    return { colour, stripes: Math.floor(index / OWNERS.length) % 4, ink: inkOn(colour) };
  }
}

/** A colour for each of some names: the owners' own, if no two of them have the same. */
export function distinct(owners, names) {
  const own = names.map((name) => owners.look(name).colour);
  return new Set(own).size === own.length ? own : names.map((_, at) => OWNERS[at % OWNERS.length]);
}

/** g2 before g10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

const luminance = (hex) => {
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

/** Black or white, whichever is easier to read on a colour. */
export const inkOn = (hex) => (luminance(hex) > 0.19 ? "#14181c" : "#ffffff");

/** The colour for a share between 0 and 1; more is further from the background. */
export function step(share) {
  const steps = isDark() ? STEPS_DARK : STEPS_LIGHT;
  return steps[Math.max(0, Math.min(steps.length - 1, Math.floor(share * steps.length)))];
}

/** All steps, for a legend. */
export const steps = () => (isDark() ? STEPS_DARK : STEPS_LIGHT);

/**
 * Fill a rectangle as its owner looks.
 * @param {CanvasRenderingContext2D} canvas
 */
export function paint(canvas, look, x, y, width, height) {
  canvas.fillStyle = look.colour;
  canvas.fillRect(x, y, width, height);
  if (!look.stripes || width < 3 || height < 3) return;
  canvas.save();
  canvas.beginPath();
  canvas.rect(x, y, width, height);
  canvas.clip();
  canvas.strokeStyle = look.ink === "#ffffff" ? "rgba(255,255,255,.28)" : "rgba(0,0,0,.24)";
  canvas.lineWidth = 2;
  canvas.beginPath();
  const gap = 9;
  if (look.stripes !== 2) {
    for (let at = x - height; at < x + width; at += gap) {
      canvas.moveTo(at, y + height);
      canvas.lineTo(at + height, y);
    }
  }
  if (look.stripes !== 1) {
    for (let at = x - height; at < x + width; at += gap) {
      canvas.moveTo(at, y);
      canvas.lineTo(at + height, y + height);
    }
  }
  canvas.stroke();
  canvas.restore();
}
