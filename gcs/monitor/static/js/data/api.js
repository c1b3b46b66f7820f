// Questions to the monitor. Addresses are relative, so that they hold below any path.

const PATIENCE_MS = 20_000;

/** What the monitor refused, or that it did not answer; the message is a sentence for people. */
export class Refusal extends Error {
  /** @param {string} sentence @param {number} status 0 if there was no answer. */
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** Ask for something. */
export function get(path, query = {}) {
  const words = Object.entries(query).filter(([, value]) => value !== "" && value !== null);
  const tail = words.length ? `?${new URLSearchParams(words)}` : "";
  return asked(`api/${path}${tail}`, { cache: "no-cache" }, PATIENCE_MS);
}

/** Ask for a change; some take minutes. */
export function send(path, body, { method = "POST", patience_ms = PATIENCE_MS } = {}) {
  const headers = { "Content-Type": "application/json" };
  return asked(`api/${path}`, { method, headers, body: JSON.stringify(body) }, patience_ms);
}

async function asked(address, options, patience_ms) {
  let response;
  try {
    response = await fetch(address, { ...options, signal: AbortSignal.timeout(patience_ms) });
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    throw new Refusal(
      isLate
        ? `The monitor has not answered within ${patience_ms / 1000} s.`
        : "The monitor cannot be reached.",
      0,
    );
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const after = response.headers.get("Retry-After");
  const sentence = answer?.error ?? `The monitor answered ${response.status}.`;
  throw new Refusal(
    response.status === 429 && after ? `${sentence} Try again in ${after} s.` : sentence,
    response.status,
  );
}
