// Light or dark: as the system says, until somebody chooses. Charts are told when it changes.

const KEY = "gcs-theme";
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
const resolved = new Map();
let probe = null;

/** Begin with what was chosen before. */
export function begin() {
  const chosen = localStorage.getItem(KEY);
  if (chosen) root.dataset.theme = chosen;
  system.addEventListener("change", tell);
}

/** The other one, from now on. */
export function toggle() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem(KEY, root.dataset.theme);
  tell();
}

export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

/** Be told of changes; what is returned ends that. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell() {
  resolved.clear();
  for (const listener of listeners) listener();
}

/** The colour that a token such as `--accent` stands for now, as a canvas takes it. */
export function token(name) {
  if (!resolved.has(name)) {
    if (!probe) {
      probe = document.createElement("i");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(${name})`;
    resolved.set(name, getComputedStyle(probe).color);
  }
  return resolved.get(name);
}

/** The font that a canvas writes with. */
export const font = (px) => `${px}px ${getComputedStyle(root).fontFamily}`;
