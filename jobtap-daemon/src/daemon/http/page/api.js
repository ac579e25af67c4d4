// Requests to the manager: one by one, as streams, and its numbers. The token is kept in the tab.

const KEY = "jobtap-token";

/** A request that the manager has refused, in its words. */
export class Refused extends Error {
  constructor(status, { errno = 0, error = "", messages = [] }) {
    super([error, ...messages].filter(Boolean).join("; ") || `status ${status}`);
    this.status = status;
    this.errno = errno;
  }
}

export const EPERM = 1;
export const ENOENT = 2;

/** Whether a token is configured. Without one, nothing can be changed here. */
export const tokenConfigured = document.documentElement.dataset.token === "configured";

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

/** How far the manager's clock is ahead of the browser's, in seconds. */
let ahead = 0;

/** The manager's time in seconds since the UNIX epoch. */
export const now = () => Date.now() / 1000 + ahead;

/** JSON whose long whole numbers are texts: ids of jobs have more digits than numbers of JavaScript hold. */
export function parse(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
  return JSON.parse(text.replace(tokens, (t) => (t.length > 15 && /^\d+$/.test(t) ? `"${t}"` : t)));
}

async function send(path, options, given = token.get()) {
  const headers = { ...options.headers };
  if (given) headers.Authorization = `Bearer ${given}`;
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  const date = Date.parse(response.headers.get("Date"));
  // The header has whole seconds.
  if (date && Math.abs(date / 1000 + 0.5 - now()) > 2) ahead = date / 1000 + 0.5 - Date.now() / 1000;
  if (response.ok) return response;
  const text = await response.text();
  let refusal = {};
  try {
    refusal = parse(text);
  } catch {
    // Not of the manager, but of something before it.
  }
  throw new Refused(response.status, refusal);
}

const post = (payload, accept) => ({
  method: "POST",
  headers: { "Content-Type": "application/json", Accept: accept },
  body: JSON.stringify(payload),
});

/** The response of a service. `given` is another token than the one that is kept. */
export async function call(topic, payload = {}, given = undefined) {
  const response = await send(`/v1/${topic}`, post(payload, "application/json"), given);
  return parse(await response.text());
}

/** The numbers of the manager, in the text format of Prometheus. */
export async function metrics() {
  return (await send("/metrics", {})).text();
}

/** Calls `each` with every response of a stream until it ends, which is an error. */
export async function stream(topic, payload, signal, each) {
  const response = await send(`/v1/${topic}`, { ...post(payload, "text/event-stream"), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection was closed");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const data = lines.find((line) => line.startsWith("data: "))?.slice("data: ".length);
      if (data === undefined) continue;
      if (lines.includes("event: end")) throw new Refused(200, parse(data));
      each(parse(data));
    }
  }
}
