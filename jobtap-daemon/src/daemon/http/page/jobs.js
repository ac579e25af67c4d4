// The table of jobs, with its filter.

import { now } from "./api.js";
import { $, el, setText, throttled } from "./dom.js";
import { Rows } from "./rows.js";
import { KINDS, MOST } from "./state.js";
import { clock, counted, duration, number } from "./text.js";

const NUMERIC = true;
const elapsed = (job) => (job.began === undefined ? undefined : (job.ended ?? now()) - job.began);

/** What stands in the last column: what a job waits for, where it runs or ran, or what went wrong. */
function place(job) {
  if (job.refused) return job.refused;
  if (job.kind === "waiting" && job.dependencies?.length) {
    // `begin-time=1795721465` has the word already.
    const has = job.dependencies[0].startsWith(job.why ?? "");
    return `${has ? "" : `${job.why}: `}${job.dependencies.join(", ")}`;
  }
  if (job.kind === "waiting" || job.kind === "pending") return waitsFor(job.why);
  const failure = job.exception_occurred ? [job.exception_type, job.exception_note].filter(Boolean).join(": ") : "";
  return [job.nodelist, failure].filter(Boolean).join(" · ");
}

/** The words of the manager for what a job waits for, where a person needs more of them. */
const WORDS = { order: "order: others go first", queue: "queue: it is stopped", nodes: "nodes: drained or offline", priority: "priority: it has none yet" };

/** What a job waits for, in words for a person. */
export const waitsFor = (why) => WORDS[why] ?? why ?? "";

/** The columns: a title, a class, the text of a job, and what it is sorted by. */
const COLUMNS = [
  { title: "Job", key: "id", text: (job) => job.short, by: (job) => job.t_submit ?? 0, numeric: NUMERIC },
  { title: "State", key: "state", text: (job) => job.kind, by: (job) => KINDS.indexOf(job.kind) },
  { title: "Name", key: "name", text: (job) => job.name ?? "", by: (job) => job.name ?? "" },
  { title: "User", key: "user", text: (job) => job.user, by: (job) => job.user },
  { title: "Queue", key: "queue", text: (job) => job.queue ?? "", by: (job) => job.queue ?? "" },
  { title: "Nodes", key: "nnodes", text: (job) => String(job.nnodes ?? ""), by: (job) => job.nnodes ?? 0, numeric: NUMERIC },
  { title: "Cores", key: "ncores", text: (job) => String(job.ncores ?? ""), by: (job) => job.ncores ?? 0, numeric: NUMERIC },
  { title: "Submitted", key: "when", text: (job) => clock(job.t_submit), by: (job) => job.t_submit ?? 0, numeric: NUMERIC },
  { title: "Ran for", key: "time", text: (job) => duration(elapsed(job)), by: (job) => elapsed(job) ?? -1, numeric: NUMERIC },
  { title: "Where and what", key: "where", text: place, by: place },
];

/** The order without a chosen column: what runs, what waits in its order, and what has ended, the newest first. */
function byActivity(a, b) {
  if (a.inactive !== b.inactive) return a.inactive ? 1 : -1;
  if (a.inactive) return (b.t_inactive ?? 0) - (a.t_inactive ?? 0);
  return (
    KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) ||
    (b.began ?? 0) - (a.began ?? 0) ||
    (b.priority ?? 0) - (a.priority ?? 0) ||
    (a.t_submit ?? 0) - (b.t_submit ?? 0)
  );
}

/** Whether a text has all words, and none that stands after a minus. */
export function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word && word !== "-");
  return (text) => words.every((word) => (word[0] === "-" ? !text.includes(word.slice(1)) : text.includes(word)));
}

export class JobTable {
  #jobs;
  #rows;
  #kinds = new Set();
  #sort = null;
  #down = false;
  #headers;
  #chips = new Map();

  constructor(jobs, open) {
    this.#jobs = jobs;
    this.#headers = COLUMNS.map((column) => this.#header(column));
    this.#rows = new Rows($("table"), {
      head: el("div", { role: "row", class: "row columns", "aria-rowindex": 1 }, ...this.#headers),
      height: 26,
      make: () => COLUMNS.map(({ key, numeric }) =>
        el("span", { role: "gridcell", class: `cell ${key}${numeric ? " numeric" : ""}` })),
      fill: (row, id) => this.#fill(row, id),
      open,
    });
    for (const kind of KINDS) {
      const count = el("b");
      const chip = el("button", { type: "button", class: `chip ${kind}`, "aria-pressed": "false" }, kind, " ", count);
      chip.addEventListener("click", () => {
        if (!this.#kinds.delete(kind)) this.#kinds.add(kind);
        chip.setAttribute("aria-pressed", this.#kinds.has(kind));
        this.refresh();
      });
      this.#chips.set(kind, count);
      $("kinds").append(chip);
    }
    $("filter").addEventListener("input", () => this.refresh());
    $("filter").addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") $("table").focus();
    });
    jobs.addEventListener("change", throttled(250, () => this.refresh()));
    setInterval(() => this.#tick(), 1000);
    this.refresh();
  }

  select(id) {
    this.#rows.select(id);
  }

  refresh() {
    const has = matcher($("filter").value);
    const kinds = this.#kinds;
    const shown = this.#jobs.rows().filter((job) => (kinds.size === 0 || kinds.has(job.kind)) && has(job.search));
    shown.sort(this.#order());
    this.#rows.show(shown.map((job) => job.id));
    const counts = this.#jobs.counts();
    const all = KINDS.reduce((sum, kind) => sum + counts[kind], 0);
    const listed = shown.reduce((sum, job) => sum + (job.count ?? 1), 0);
    for (const [kind, count] of this.#chips) {
      setText(count, number(counts[kind]));
      count.parentElement.classList.toggle("none", counts[kind] === 0);
    }
    // Until the list has come, nothing is known of it.
    $("empty").hidden = shown.length > 0 || $("link").className !== "live";
    setText($("empty"), all > 0 ? "No job is like that." : "There are no jobs yet: jobtap submit makes one.");
    const of = this.#jobs.size >= MOST * 0.95 ? `the newest ${number(all)}` : number(all);
    setText($("shown"), listed === all ? counted(listed, "job") : `${number(listed)} of ${of} jobs`);
  }

  #order() {
    if (!this.#sort) return byActivity;
    const { by } = this.#sort;
    const sign = this.#down ? -1 : 1;
    return (a, b) => {
      const [left, right] = [by(a), by(b)];
      if (left === right) return byActivity(a, b);
      return left < right ? -sign : sign;
    };
  }

  #header(column) {
    const button = el("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      // Up, down, and back to the order of their own.
      if (this.#sort !== column) [this.#sort, this.#down] = [column, false];
      else if (!this.#down) this.#down = true;
      else this.#sort = null;
      this.#headers.forEach((header, n) => {
        const direction = this.#down ? "descending" : "ascending";
        header.setAttribute("aria-sort", COLUMNS[n] === this.#sort ? direction : "none");
      });
      this.refresh();
    });
    const kind = `cell ${column.key}${column.numeric ? " numeric" : ""}`;
    return el("span", { role: "columnheader", class: kind, "aria-sort": "none" }, button);
  }

  #fill(row, id) {
    const job = this.#jobs.row(id);
    if (!job) return;
    row.className = row.className.replace(/ ?kind-\w+/g, "") + ` kind-${job.kind}`;
    COLUMNS.forEach((column, n) => {
      const [cell, text] = [row.children[n], column.text(job)];
      if (column.key === "time") this.#limit(cell, job);
      if (cell.textContent === text) return;
      cell.textContent = text;
      if (["name", "user", "where"].includes(column.key)) cell.title = text;
    });
  }

  /** How much of its time limit a running job has used, as the ground of the cell. */
  #limit(cell, job) {
    const share = job.kind === "running" && job.duration ? Math.min(1, elapsed(job) / job.duration) : 0;
    const part = `${(share * 100).toFixed(1)}%`;
    if (cell.style.getPropertyValue("--part") === part) return;
    cell.style.setProperty("--part", part);
    cell.title = share ? `time limit ${duration(job.duration)}` : "";
  }

  /** The jobs in sight that wait, whose reasons change with other jobs, too. */
  waitingInSight() {
    const inSight = [...this.#rows.inSight()].map(([, id]) => id);
    return inSight.filter((id) => ["waiting", "pending"].includes(this.#jobs.get(id)?.kind));
  }

  /** Running jobs have run for a second more. */
  #tick() {
    for (const [row, id] of this.#rows.inSight()) {
      if (this.#jobs.get(id)?.kind === "running") this.#fill(row, id);
    }
  }
}
