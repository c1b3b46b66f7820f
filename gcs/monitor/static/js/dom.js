// Elements, made without ever parsing text: whatever comes from the web stays text.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties and children. Strings and numbers become text; null and false are left out.
 * `class`, `data-…`, `aria-…` and the like are attributes, `on…` are listeners, the rest are properties.
 * @param {string} tag
 * @param {Object<string, any>} [properties]
 * @param {...any} children
 * @returns {any}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

/** An SVG element; all of its properties are attributes. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Put children where others were. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat(2).filter((each) => each !== null && each !== undefined && each !== false),
  );
  return element;
}

/** Change a text only if it differs, so that nothing is laid out or announced without need. */
export function write(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

/** Change a class only if it differs. */
export function dress(element, name) {
  if (element.className !== name) element.className = name;
}

let numbers = 0;

/** An id that no other element has. */
export function fresh(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}
