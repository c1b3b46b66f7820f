// The world, each country as dark as it has pages, with the strongest links between countries.

/* global d3, topojson */

import { draw, fill, make } from "../dom.js";
import { countryName, letters } from "../data/countries.js";
import { step } from "../palette.js";
import { tip, untip } from "../parts/tip.js";
import { onChange } from "../theme.js";

const [WIDTH, HEIGHT] = [960, 470];
const SHAPES = new URL("../../vendor/world-atlas/countries-110m.json", import.meta.url);

export class WorldMap {
  /** @param {{tell: (code: string) => string[]}} options */
  constructor({ tell }) {
    this._tell = tell;
    this._values = new Map();
    this._links = [];
    /** Codes, "" where there is none, and paths. */
    this._all = [];
    this._svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    this.element = make("div", { class: "world" }, this._svg);
    this._untheme = onChange(() => this._colour());
    this._drawn = this._draw();
  }

  /**
   * @param {Map<string, number>} values Pages by country.
   * @param {{from: number[], to: number[], share: number}[]} links Longitude and latitude of both ends.
   */
  async show(values, links) {
    this._values = values;
    this._links = links;
    await this._drawn;
    this._colour();
  }

  async _draw() {
    const world = await fetch(SHAPES).then((response) => response.json());
    const shapes = topojson.feature(world, world.objects.countries).features;
    // Antarctica has no pages, and takes a fifth of the map.
    const shown = shapes.filter((each) => each.id !== "010");
    this._projection = d3
      .geoNaturalEarth1()
      .fitSize([WIDTH, HEIGHT], { type: "FeatureCollection", features: shown });
    const path = d3.geoPath(this._projection);
    this._path = path;
    const lands = shown.map((each) => {
      const code = letters(each.id);
      const land = draw("path", { class: "land", d: path(each) });
      this._all.push([code, land]);
      land.addEventListener("mousemove", (event) => {
        tip(event.clientX, event.clientY, code ? this._tell(code) : [each.properties.name]);
      });
      land.addEventListener("mouseleave", untip);
      return land;
    });
    this._ways = draw("g", {});
    fill(this._svg, draw("path", { class: "sphere", d: path({ type: "Sphere" }) }), lands, this._ways);
  }

  _colour() {
    const most = Math.max(1, ...this._values.values());
    // Countries differ by orders of magnitude, and small ones should be seen too.
    const share = (pages) => Math.sqrt(pages / most);
    for (const [code, land] of this._all) {
      const pages = this._values.get(code) ?? 0;
      const colour = pages ? step(0.15 + 0.85 * share(pages) * 0.999) : step(0);
      if (land.getAttribute("fill") !== colour) land.setAttribute("fill", colour);
    }
    const ways = this._links.map(({ from, to, share: strength }) =>
      draw("path", {
        class: "way",
        d: this._path({ type: "LineString", coordinates: [from, to] }) ?? "",
        "stroke-width": (0.8 + 3.2 * strength).toFixed(1),
      }),
    );
    fill(this._ways, ways);
    const top = [...this._values].sort((one, two) => two[1] - one[1]).slice(0, 5);
    const said = top.map(([code, pages]) => `${countryName(code)} ${pages}`).join(", ");
    this._svg.setAttribute("aria-label", `World map of pages by country. Most: ${said || "none yet"}.`);
  }

  end() {
    untip();
    this._untheme();
  }
}
