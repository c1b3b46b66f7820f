// Which view is shown: the part of the address behind "#/", so that it works below any path.

/** @typedef {{name: string, query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { name, query: new URLSearchParams(query ?? "") };
}

/** Go somewhere. */
export function go(name, query = {}) {
  const words = new URLSearchParams(query).toString();
  location.hash = words ? `#/${name}?${words}` : `#/${name}`;
}

/** Be told when the place changes. */
export function onMove(tell) {
  window.addEventListener("hashchange", tell);
}
