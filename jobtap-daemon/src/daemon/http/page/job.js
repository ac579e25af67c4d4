// One job: what it is, what it waits for in words, and its way so far.

import { call, ENOENT, now, stream, token } from "./api.js";
import { $, el, setText, throttled } from "./dom.js";
import { clock, counted, duration, longId, shortId } from "./text.js";

/** The states on a job's way, by the times at which they begin. */
const PHASES = [
  ["t_depend", "dependencies", "waiting"],
  ["t_priority", "priority", "waiting"],
  ["t_sched", "waits for resources", "pending"],
  ["t_run", "runs", "running"],
  ["t_cleanup", "ends", "ending"],
];

/** The phases that a job has passed and is in: their names, kinds and times. */
function phases(job) {
  const begun = PHASES.filter(([key]) => job[key] !== undefined);
  return begun.map(([key, name, kind], n) => {
    const next = begun[n + 1];
    const end = next ? job[next[0]] : (job.t_inactive ?? now());
    return { name, kind, from: job[key], to: Math.max(job[key], end), open: !next && !job.inactive };
  });
}

/** How a process ended, by the status of wait(2). */
function exit(status) {
  if (status === undefined || status === 0) return "";
  const signal = status & 127;
  return signal ? `a task was ended by signal ${signal}` : `a task exited with code ${status >> 8}`;
}

/** What a job does or did, in a sentence. */
function sentence(job) {
  const where = job.nodelist ? ` on ${job.nodelist}` : "";
  const ran = job.began === undefined ? "without having run" : `after it had run for ${duration(job.ended - job.began)}${where}`;
  const why = [exit(job.waitstatus), job.exception_occurred ? [job.exception_type, job.exception_note].filter(Boolean).join(": ") : ""];
  const reasons = why.filter(Boolean).join("; ");
  const because = reasons ? `: ${reasons}` : "";
  switch (job.kind) {
    case "completed": return `It completed ${ran}.`;
    case "failed": return `It failed ${ran}${because}.`;
    case "timeout": return `It reached its time limit and was ended ${ran}.`;
    case "canceled": return `It was canceled ${ran}${because}.`;
    case "running": return `It has been running for ${duration(now() - job.began)}${where}${limit(job)}.`;
    case "ending": return `Its tasks have ended, and it is being cleaned up${because}.`;
    default: return `It has been waiting for ${duration(now() - job.t_submit)}.`;
  }
}

/** When a running job reaches its time limit. */
function limit(job) {
  if (!job.duration || !job.expiration) return "";
  return job.expiration > now() ? `, and has ${duration(job.expiration - now())} left` : ", and is over its time limit";
}

/** How long after the first event another one was. */
const after = (seconds) => (seconds < 10 ? `+${seconds.toFixed(3)}s` : `+${duration(seconds)}`);

/** The context of an event: its values by their dotted names. */
function context(event) {
  const flat = (value, name) => (value !== null && typeof value === "object" && !Array.isArray(value)
    ? Object.entries(value).flatMap(([key, inner]) => flat(inner, name ? `${name}.${key}` : key))
    : [`${name}=${typeof value === "object" ? JSON.stringify(value) : value}`]);
  return flat(event.context ?? {}, "").join("  ");
}

/**
 * A text in which ids of known jobs lead to these. In a manager whose locale has no `ƒ` they begin with a plain `f`, as
 * words do, too.
 */
function linked(text, jobs) {
  const parts = text.split(/(?<![0-9A-Za-z])([ƒf][1-9A-HJ-NP-Za-km-z]{1,11})(?![0-9A-Za-z])/);
  return parts.filter(Boolean).map((part) => {
    const id = /^[ƒf][1-9A-HJ-NP-Za-km-z]{1,11}$/.test(part) ? longId(part) : "";
    return jobs.get(id) ? el("a", { href: `#jobs/${id}` }, part) : part;
  });
}

export class JobView {
  #jobs;
  #id = null;
  #watch = new AbortController();
  #parts = {};
  #askWhy = throttled(2000, () => this.#why());
  #closed;

  /** `closed` is called when the user has closed the job. */
  constructor(jobs, closed) {
    this.#jobs = jobs;
    this.#closed = closed;
    jobs.addEventListener("change", throttled(250, () => this.#refresh()));
    setInterval(() => this.#refresh(), 1000);
    $("job-close").addEventListener("click", () => this.close());
    $("job-cancel").addEventListener("click", () => {
      const job = this.#jobs.get(this.#id);
      setText($("cancel-what"), `${shortId(this.#id)} ${job?.name ?? ""} of user ${job?.user ?? "?"}`);
      setText($("cancel-error"), "");
      $("cancel-dialog").showModal();
    });
    $("cancel-no").addEventListener("click", () => $("cancel-dialog").close());
    $("cancel-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#cancel();
    });
  }

  get id() {
    return this.#id;
  }

  /** Shows a job, if it is not shown already. */
  async show(id) {
    if (this.#id === id) return;
    this.#watch.abort();
    this.#id = id;
    $("job").hidden = false;
    document.body.classList.add("with-job");
    this.#build();
    if (!this.#jobs.get(id)) await this.#find(id);
    if (this.#id !== id) return;
    this.#refresh();
    if (token.get()) this.#events(id);
  }

  hide() {
    this.#watch.abort();
    this.#id = null;
    $("job").hidden = true;
    document.body.classList.remove("with-job");
  }

  /** The user closes it. */
  close() {
    if (this.#id === null) return;
    this.hide();
    this.#closed();
  }

  /** Holds no stream until it is shown again. */
  pause() {
    this.#watch.abort();
  }

  /** Asks again, since a token is known now or no longer, or after a pause. */
  again() {
    const id = this.#id;
    if (id === null) return;
    this.#id = null;
    this.show(id);
  }

  async #find(id) {
    try {
      const { job } = await call("job-list.list-id", { id });
      this.#jobs.update([job]);
    } catch (error) {
      setText(this.#parts.sentence, error.errno === ENOENT ? "There is no such job." : `It can't be shown: ${error.message}.`);
    }
  }

  #build() {
    const parts = {
      sentence: el("p", { class: "sentence" }),
      why: el("ul", { class: "why", "aria-label": "What it waits for" }),
      phases: el("div", { class: "phases", role: "img" }),
      legend: el("ol", { class: "legend", "aria-label": "Phases" }),
      facts: el("dl", { class: "facts" }),
      events: el("ol", { class: "events" }),
      eventsNote: el("p", { class: "quiet" }),
    };
    this.#parts = parts;
    setText($("job-title"), shortId(this.#id));
    $("job-cancel").hidden = true;
    $("job-body").replaceChildren(
      parts.sentence, parts.why, parts.phases, parts.legend, parts.facts,
      el("h3", {}, "Events"), parts.events, parts.eventsNote,
    );
    setText(parts.eventsNote, token.get() ? "" : "The eventlog is shown to a client with the token.");
  }

  #refresh() {
    const job = this.#jobs.get(this.#id);
    if (!job) return;
    const { sentence: text, facts } = this.#parts;
    setText($("job-title"), `${job.short} ${job.name ?? ""}`);
    $("job-cancel").hidden = job.inactive || !token.get();
    setText(text, sentence(job));
    text.className = `sentence kind-${job.kind}`;
    this.#drawPhases(job);
    const all = [
      ["State", job.kind], ["User", job.user], ["Queue", job.queue], ["Project", job.project], ["Bank", job.bank],
      ["Size", [job.nnodes && counted(job.nnodes, "node"), counted(job.ntasks ?? 0, "task"), counted(job.ncores ?? 0, "core")].filter(Boolean).join(", ")],
      ["Hosts", job.nodelist], ["Time limit", job.duration ? duration(job.duration) : "none"],
      ["Urgency", job.urgency], ["Priority", job.priority], ["Submitted", clock(job.t_submit)],
      ["Directory", job.cwd], ["Dependencies", job.dependencies?.join(", ")], ["Id", job.id],
    ].filter(([, value]) => value !== undefined && value !== "");
    const shown = JSON.stringify(all);
    if (facts.dataset.shown !== shown) {
      facts.dataset.shown = shown;
      facts.replaceChildren(...all.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, ...linked(String(value), this.#jobs)))));
    }
    this.#askWhy();
  }

  #drawPhases(job) {
    const all = phases(job);
    const { phases: bar, legend } = this.#parts;
    const total = all.reduce((sum, { from, to }) => sum + to - from, 0) || 1;
    while (bar.children.length < all.length) {
      bar.append(el("span"));
      legend.append(el("li", {}, el("span", { class: "dot", "aria-hidden": "true" }), el("span")));
    }
    all.forEach(({ name, kind, from, to, open }, n) => {
      bar.children[n].className = `kind-${kind}${open ? " open" : ""}`;
      bar.children[n].style.flexGrow = Math.max(0.004, (to - from) / total);
      legend.children[n].className = `kind-${kind}`;
      setText(legend.children[n].lastChild, `${name} ${duration(to - from)}`);
    });
    bar.setAttribute("aria-label", all.map(({ name, from, to }) => `${name}: ${duration(to - from)}`).join(", "));
  }

  /** Asks what the job waits for. */
  async #why() {
    const [id, job, { why }] = [this.#id, this.#jobs.get(this.#id), this.#parts];
    if (!why) return;
    if (!job || !["pending", "waiting"].includes(job.kind)) return why.replaceChildren();
    let reasons;
    if (!token.get()) {
      reasons = ["What it waits for is shown to a client with the token."];
    } else {
      try {
        reasons = (await call("job-manager.why", { id })).reasons.map((reason) => reason.text);
      } catch (error) {
        reasons = [error.message];
      }
    }
    if (this.#id !== id || this.#parts.why !== why) return;
    if (why.dataset.shown === JSON.stringify(reasons) && why.children.length > 0) return;
    why.dataset.shown = JSON.stringify(reasons);
    why.replaceChildren(...reasons.map((text) => el("li", {}, ...linked(text, this.#jobs))));
  }

  /** Follows the eventlog. */
  async #events(id) {
    this.#watch = new AbortController();
    const { signal } = this.#watch;
    const { events, eventsNote } = this.#parts;
    let first;
    try {
      await stream("job-info.eventlog-watch", { id, path: "eventlog" }, signal, ({ event: line }) => {
        const event = JSON.parse(line);
        first ??= event.timestamp;
        events.append(el("li", { class: event.name === "exception" ? "bad" : undefined },
          el("time", { title: clock(event.timestamp) }, after(event.timestamp - first)),
          el("b", {}, event.name), el("span", {}, context(event))));
      });
    } catch (error) {
      // The log of a job that has ended has an end.
      if (!signal.aborted && !this.#jobs.get(id)?.inactive) setText(eventsNote, `The eventlog has ended: ${error.message}`);
    }
  }

  async #cancel() {
    try {
      await call("job-manager.raise", { id: this.#id, type: "cancel", severity: 0, note: "canceled in the web view" });
      $("cancel-dialog").close();
    } catch (error) {
      setText($("cancel-error"), error.message);
    }
  }
}
