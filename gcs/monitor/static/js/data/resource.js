// Something larger than an event: fetched when its version differs from the one that is shown.

import { get } from "./api.js";

export class Resource {
  /**
   * @param {import("./feed.js").Feed} feed
   * @param {{path: string, version: string, query?: () => Object<string, any>,
   *   show: (data: any) => void, fail: (sentence: string) => void}} options
   */
  constructor(feed, { path, version, query = () => ({}), show, fail }) {
    Object.assign(this, {
      _feed: feed,
      _path: path,
      _version: version,
      _query: query,
      _show: show,
      _fail: fail,
    });
    this._shown = null;
    this._asking = null;
    this._wanted = 0;
    this._off = [feed.on("changed", () => this._look()), feed.on("connection", () => this._look())];
    this.refresh();
  }

  /** Fetch it anew, whatever was shown; an answer to what was asked before is not shown any more. */
  refresh() {
    this._shown = null;
    this._wanted += 1;
    return this._look();
  }

  _look() {
    const version = this._feed.versions[this._version] ?? 0;
    if (this._shown === version || this._asking || this._ended) return this._asking;
    this._asking = this._fetch().finally(() => {
      this._asking = null;
    });
    return this._asking;
  }

  async _fetch() {
    let wanted;
    do {
      wanted = this._wanted;
      const version = this._feed.versions[this._version] ?? 0;
      try {
        const data = await get(this._path, this._query());
        if (this._ended || wanted !== this._wanted) continue;
        this._shown = version;
        this._show(data);
      } catch (error) {
        if (!this._ended && wanted === this._wanted) this._fail(error.message);
      }
    } while (!this._ended && wanted !== this._wanted);
  }

  end() {
    this._ended = true;
    this._off.forEach((off) => off());
  }
}
