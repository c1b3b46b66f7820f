// Numbers, sizes and times as people read them. Everything has its unit.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTH = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
export const NONE = "–";

const isKnown = (number) => typeof number === "number" && Number.isFinite(number);

/** All digits, in groups. */
export const count = (number) => (isKnown(number) ? WHOLE.format(number) : NONE);

/** A few characters: 12,345 up to there, then 1.2M. */
export const short = (number) =>
  !isKnown(number) ? NONE : Math.abs(number) < 100_000 ? WHOLE.format(number) : SHORT.format(number);

/** One place behind the point, none from a hundred on. */
export const rate = (number) =>
  !isKnown(number) ? NONE : Math.abs(number) < 100 ? TENTH.format(number) : WHOLE.format(number);

/** A mark of an axis: no place behind the point that says nothing. */
export const mark = (number) => (Math.abs(number) < 100_000 ? PLAIN.format(number) : SHORT.format(number));

/** A share as a percentage. */
export function percent(share) {
  if (!isKnown(share)) return NONE;
  const hundredth = share * 100;
  const digits = hundredth !== 0 && Math.abs(hundredth) < 10 ? 1 : 0;
  return `${hundredth.toFixed(digits)} %`;
}

/** A size, as a number and its unit. */
export function sizeParts(bytes) {
  if (!isKnown(bytes)) return [NONE, ""];
  let step = 0;
  let number = bytes;
  while (Math.abs(number) >= 999.5 && step < SIZES.length - 1) {
    number /= 1000;
    step += 1;
  }
  return [step === 0 || number >= 100 ? WHOLE.format(number) : TENTH.format(number), SIZES[step]];
}

/** A size with its unit. */
export const size = (bytes) => sizeParts(bytes).join(" ").trim();

/** A length of time, in its two largest units. */
export function duration(seconds) {
  if (!isKnown(seconds)) return NONE;
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const units = [
    ["d", 86_400],
    ["h", 3_600],
    ["min", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, length]) => whole >= length);
  const [name, length] = units[first];
  const parts = [`${Math.floor(whole / length)} ${name}`];
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % length) / next[1]) : 0;
  if (rest) parts.push(`${rest} ${next[0]}`);
  return parts.join(" ");
}

/** The time of day of a Unix time; with the day if that is another one. */
export function moment(at) {
  if (!isKnown(at) || at <= 0) return NONE;
  const date = new Date(at * 1000);
  return date.toDateString() === new Date().toDateString() ? CLOCK.format(date) : DAY.format(date);
}

/** How long ago a Unix time was. */
export function ago(at) {
  if (!isKnown(at)) return NONE;
  const seconds = Date.now() / 1000 - at;
  return seconds < 2 ? "just now" : `${duration(Math.round(seconds))} ago`;
}

/** "1 page", "2 pages". */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** A text that fits, with its middle left out: both ends of a URL say something. */
export function middle(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
