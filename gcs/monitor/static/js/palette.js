// Colours that people with any colour vision can tell apart, and ways to tell things apart without colour.

import { isDark } from "./theme.js";

// Okabe and Ito's set without black and yellow, which vanish on one of the two themes, and two of Tol's.
const OWNERS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a68b5", "#999933"];
const STEPS_LIGHT = ["#f0f4f6", "#d3e5ee", "#a9cfe2", "#75b2d0", "#4091b8", "#1a6f98", "#074d70", "#032f47"];
const STEPS_DARK = ["#1c262e", "#1d3a4a", "#1b5068", "#196a88", "#2387a9", "#44a7c7", "#7fc8de", "#c4e8f2"];

/**
 * How owners look: in the order of their names, so that a colour stays while nobody joins or leaves.
 * The ninth has the first one's colour again, with stripes; names are shown beside colours everywhere.
 */
export class Owners {
  constructor() {
    this._looks = new Map();
  }

  /** Say who there is; known names keep their look. */
  know(names) {
    for (const name of [...names].sort(byName)) {
      if (!this._looks.has(name)) this._looks.set(name, lookOf(this._looks.size));
    }
  }

  /** @returns {{colour: string, stripes: number, ink: string}} */
  look(name) {
    if (!this._looks.has(name)) this.know([name]);
    return this._looks.get(name);
  }
}

function lookOf(index) {
  const colour = OWNERS[index % OWNERS.length];
  return { colour, stripes: Math.floor(index / OWNERS.length) % 4, ink: inkOn(colour) };
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

const TILE_PX = 9;
const tiles = new Map();

/** A tile of stripes: one way, the other way, or both. */
function tile({ stripes, ink }) {
  const key = `${stripes} ${ink}`;
  if (!tiles.has(key)) {
    const canvas = new OffscreenCanvas(TILE_PX, TILE_PX);
    const context = canvas.getContext("2d");
    context.strokeStyle = ink === "#ffffff" ? "rgba(255,255,255,.3)" : "rgba(0,0,0,.26)";
    context.lineWidth = 2;
    context.beginPath();
    // Each line again one tile further, so that tiles fit together at their corners.
    for (const at of [-TILE_PX, 0, TILE_PX]) {
      if (stripes !== 2) {
        context.moveTo(at, TILE_PX);
        context.lineTo(at + TILE_PX, 0);
      }
      if (stripes !== 1) {
        context.moveTo(at, 0);
        context.lineTo(at + TILE_PX, TILE_PX);
      }
    }
    context.stroke();
    tiles.set(key, canvas);
  }
  return tiles.get(key);
}

/**
 * Fill a rectangle as its owner looks.
 * @param {CanvasRenderingContext2D} context
 */
export function paint(context, look, x, y, width, height) {
  context.fillStyle = look.colour;
  context.fillRect(x, y, width, height);
  if (!look.stripes || width < TILE_PX || height < TILE_PX) return; // too small to be told by stripes
  context.fillStyle = context.createPattern(tile(look), "repeat");
  context.fillRect(x, y, width, height);
}
