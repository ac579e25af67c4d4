// Puts the page together: which view is shown, what it is asked for, and the stream that keeps it live.

import { call, EPERM, metrics, now, Refused, stream, token, tokenConfigured } from "./api.js";
import { $, el, setText, throttled } from "./dom.js";
import { JobView } from "./job.js";
import { JobTable, waitsFor } from "./jobs.js";
import { Gantt } from "./nodes.js";
import { PluginTable } from "./plugins.js";
import { showQueues } from "./queues.js";
import { Jobs, MOST, RUNNING } from "./state.js";
import { duration, number } from "./text.js";
import { Users } from "./users.js";

const VIEWS = ["jobs", "nodes", "queues", "plugins"];
const UNAUTHORIZED = 401;
/** How many running jobs are listed before all jobs are. */
const FIRST = 500;
/** As many jobs as the manager explains at once. */
const MOST_EXPLAINED = 256;

const jobs = new Jobs();
const users = new Users(jobs);
const go = (view, id) => { location.hash = id ? `#${view}/${id}` : `#${view}`; };
let view = "jobs";
/** A row's job; that of elements which aren't jobs yet has none. */
const open = (id) => { if (jobs.get(id)) go(view, id); };
const table = new JobTable(jobs, open);
const gantt = new Gantt(jobs, open);
const plugins = new PluginTable();
const job = new JobView(jobs, () => {
  go(view);
  (view === "nodes" ? $("gantt") : view === "jobs" ? $("table") : $("view")).focus();
});

/** Shows what the address says: a view, and perhaps a job. */
function route() {
  const [name, id] = location.hash.slice(1).split("/");
  view = VIEWS.includes(name) ? name : "jobs";
  for (const one of VIEWS) $(one).hidden = one !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view[0].toUpperCase()}${view.slice(1)} · jobtap`;
  if (/^\d{1,20}$/.test(id ?? "")) {
    job.show(id);
    table.select(id);
  } else {
    job.hide();
  }
  table.refresh();
  poll();
}

function notice(text) {
  setText($("notice"), text);
  $("notice").hidden = text === "";
}

function link(state, text) {
  $("link").className = state;
  setText($("link-text"), text);
}

/** What a client may do here, and how it may do more. */
function showRights() {
  const has = token.get() !== null;
  setText($("rights"), has ? "owner" : "read-only");
  $("token-open").hidden = !tokenConfigured;
  setText($("token-open"), has ? "Forget token" : "Enter token");
}

/* What does not come by the stream is asked for now and then. */

let stats = null;
let uptime = null;

async function poll() {
  const asked = [
    call("resource.status").then((status) => gantt.take(status)),
    call("job-list.job-stats").then((all) => {
      stats = all;
      jobs.keepInactive(all.job_states.inactive);
    }).catch((error) => {
      stats = null;
      if (error.errno !== EPERM) throw error;
    }),
    call("job-list.arrays").then(({ arrays }) => jobs.takeArrays(arrays)).catch((error) => {
      jobs.takeArrays([]);
      if (error.errno !== EPERM) throw error;
    }),
  ];
  if (view === "jobs") asked.push(explain().catch((error) => { if (error.errno !== EPERM) throw error; }));
  if (!uptime) asked.push(call("job-manager.uptime").then((answer) => { uptime = answer; }));
  try {
    await Promise.all(asked);
    if (view === "queues") showQueues(await call("job-manager.queue-overview"), stats);
    if (view === "plugins") await metrics().then((text) => plugins.show(text), (error) => plugins.refuse(error.message));
  } catch {
    // The stream's end says what is wrong.
  }
  summarize();
}

/** What jobs wait for, summed up, and the words of those in sight. */
async function explain() {
  const ids = table.waitingInSight().slice(0, MOST_EXPLAINED);
  const { counts, jobs: waiting } = await call("job-list.waits", { ids });
  jobs.explain(ids, waiting);
  const parts = Object.entries(counts).sort(([, a], [, b]) => b - a);
  $("waits").replaceChildren(...parts.map(([why, count]) =>
    el("div", {}, el("dt", {}, waitsFor(why)), el("dd", {}, number(count)))));
}

function summarize() {
  const nodes = gantt.counts();
  const states = stats?.job_states;
  const waiting = states ? states.depend + states.priority + states.sched : undefined;
  const parts = [
    ["running", states && number(states.run + states.cleanup), "running"],
    ["waiting", states && number(waiting), "pending"],
    ["nodes", nodes.all ? `${number(nodes.busy)}/${number(nodes.all)}` : undefined, "text"],
    ["cores", states && nodes.cores && $("link").className === "live" ? `${number(jobs.cores())}/${number(nodes.cores)}` : undefined, "text"],
    ["drained", nodes.drained ? number(nodes.drained) : undefined, "failed"],
    ["offline", nodes.offline ? number(nodes.offline) : undefined, "failed"],
    ["up for", uptime && duration(now() - uptime.starttime), "text"],
  ].filter(([, value]) => value !== undefined && value !== null);
  $("summary").replaceChildren(...parts.map(([name, value, kind]) =>
    el("div", { class: `kind-${kind}` }, el("dt", {}, name), el("dd", {}, value))));
}

const soon = throttled(1000, poll);

/* The stream. */

let streaming = new AbortController();

/** Follows the jobs until the signal says so. Without the stream there is nothing live here, so it is always begun again. */
async function follow(signal) {
  for (let wait = 1; !signal.aborted; wait = Math.min(5, wait * 2)) {
    try {
      await changes(signal, () => { wait = 1; });
    } catch (error) {
      if (signal.aborted) return;
      refused(error);
    }
    await new Promise((done) => setTimeout(done, wait * 1000));
  }
}

/** Lists the jobs when the stream has begun, so that no change is missed, and then takes each change. */
async function changes(signal, begun) {
  let early = null;
  let listed = null;
  const list = async () => {
    // A long list takes the manager its time, so a person sees what runs before all the rest.
    if (jobs.size === 0) {
      const { jobs: running } = await call("job-list.list", { max_entries: FIRST, constraint: { states: [RUNNING] } });
      if (signal.aborted) return;
      jobs.replace(running);
      link("", "loading all jobs");
    }
    const all = await call("job-list.list", { max_entries: MOST });
    if (signal.aborted) return;
    jobs.replace(all.jobs);
    jobs.update(early);
    early = null;
    notice("");
    link("live", "live");
    table.refresh();
    begun();
    soon();
  };
  const failed = new AbortController();
  await stream("job-list.changes", {}, AbortSignal.any([signal, failed.signal]), ({ jobs: changed }) => {
    if (!listed) {
      early = [];
      listed = list().catch((error) => failed.abort(error));
    } else if (early) {
      early.push(...changed);
    } else {
      jobs.update(changed);
      soon();
    }
  });
}

/** Shows nothing of jobs any longer. */
function hide() {
  stats = null;
  jobs.takeArrays([]);
  $("waits").replaceChildren();
  if (jobs.size > 0) {
    jobs.replace([]);
    job.again();
  }
  summarize();
}

function refused(error) {
  if (error instanceof Refused && error.errno === EPERM) {
    hide();
    link("off", "hidden");
    notice(`This manager hides the jobs of its users (access.private-mode)${tokenConfigured ? ": enter the token to see them." : "."}`);
  } else if (error.status === UNAUTHORIZED) {
    hide();
    link("off", "no access");
    notice(`${error.message}.`);
    if (tokenConfigured && !token.get() && !$("token-dialog").open) $("token-dialog").showModal();
  } else {
    link("off", "connecting again");
    notice("");
  }
}

/** Begins again, as another client or after a pause. */
function restart() {
  streaming.abort();
  streaming = new AbortController();
  link("", "connecting");
  showRights();
  users.again();
  follow(streaming.signal);
  poll();
}

/* The token. */

$("token-open").addEventListener("click", () => {
  if (token.get()) {
    token.set(null);
    restart();
    job.again();
    return;
  }
  setText($("token-error"), "");
  $("token-dialog").showModal();
});
$("token-cancel").addEventListener("click", () => $("token-dialog").close());
$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = $("token").value.trim();
  try {
    // Whether it is the token, before it is kept.
    await call("job-manager.uptime", {}, given || "none");
  } catch (error) {
    setText($("token-error"), error.message);
    return;
  }
  $("token").value = "";
  token.set(given);
  $("token-dialog").close();
  restart();
  job.again();
});

/* Keys, where no text is written. */

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const writes = event.target.matches("input, select");
  if (event.key === "Escape" && (!writes || event.target.value === "")) {
    job.close();
  } else if (!writes && event.key === "/") {
    go("jobs", job.id);
    $("filter").focus();
    event.preventDefault();
  } else if (!writes && /^[1-4]$/.test(event.key)) {
    go(VIEWS[event.key - 1], job.id);
  }
});

// The address has the view, so the link to its content is no address.
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("view").focus();
});

// A page that is not seen holds no stream: browsers allow few connections to a server, over all tabs.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    streaming.abort();
    job.pause();
  } else {
    restart();
    job.again();
  }
});

window.addEventListener("hashchange", route);
setInterval(() => { if (!document.hidden) poll(); }, 5000);
route();
restart();
