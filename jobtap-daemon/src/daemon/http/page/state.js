// The jobs that the page knows, as the stream of changes keeps them up to date.

import { idsetCount, shortId } from "./text.js";

/** More jobs than these are not kept: those that ended first are left out. */
export const MOST = 20000;

/** What a job is to a person: its state, or its result once it has ended. In the order in which they are shown. */
export const KINDS = ["running", "ending", "pending", "waiting", "failed", "timeout", "canceled", "completed"];

const STATES = { 2: "waiting", 4: "waiting", 8: "pending", 16: "running", 32: "ending" };
const RESULTS = { 1: "completed", 2: "failed", 4: "canceled", 8: "timeout" };
/** RFC 21's names of the states. */
const NAMES = { 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP", 64: "INACTIVE" };
const INACTIVE = 64;
/** The states in which jobs have resources, as a constraint of a list names them. */
export const RUNNING = 16 | 32;

/** A job as a list has it, with what the views need of it. `user` is the name of its user, or else the number. */
function known(listed, user) {
  const id = String(listed.id);
  const inactive = listed.state === INACTIVE;
  const kind = (inactive ? RESULTS[listed.result] : STATES[listed.state]) ?? "waiting";
  const words = [shortId(id), id, listed.name, user, listed.userid, listed.queue, kind, NAMES[listed.state],
    listed.nodelist, listed.project, listed.bank, listed.exception_type];
  return {
    ...listed,
    id,
    kind,
    user,
    inactive,
    short: shortId(id),
    began: listed.t_run,
    ended: listed.t_cleanup ?? listed.t_inactive,
    search: words.filter((word) => word !== undefined).join(" ").toLowerCase(),
  };
}

/** The elements of a job array that aren't jobs yet, as one row beside those of the jobs. */
function waiting(array, user) {
  const id = String(array.id);
  const short = `${shortId(id)}[${array.waiting}]`;
  const words = [short, id, array.name, user, array.userid, array.queue, "pending", "array", array.refused];
  return {
    id: `${id}[]`,
    kind: "pending",
    user,
    short,
    inactive: false,
    count: idsetCount(array.waiting),
    name: array.name,
    userid: array.userid,
    queue: array.queue,
    urgency: array.urgency,
    t_submit: array.t_submit,
    refused: array.refused,
    why: array.urgency === 0 ? "held" : undefined,
    search: words.filter((word) => word !== undefined && word !== null).join(" ").toLowerCase(),
  };
}

export class Jobs extends EventTarget {
  #jobs = new Map();
  #arrays = [];
  #waiting = new Map();
  #inactive = 0;
  #names = new Map();

  get size() {
    return this.#jobs.size;
  }

  get(id) {
    return this.#jobs.get(id);
  }

  values() {
    return this.#jobs.values();
  }

  /** The jobs, and the elements of arrays that aren't jobs yet: a row for those of each array. */
  rows() {
    return [...this.#jobs.values(), ...this.#waiting.values()];
  }

  row(id) {
    return this.#jobs.get(id) ?? this.#waiting.get(id);
  }

  /** How many jobs there are of each kind, elements that aren't jobs yet among them. */
  counts() {
    const counts = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
    for (const { kind, count } of this.rows()) counts[kind] += count ?? 1;
    return counts;
  }

  /** Takes these arrays for all that have elements that aren't jobs yet. */
  takeArrays(arrays) {
    if (arrays.length === 0 && this.#arrays.length === 0) return;
    this.#arrays = arrays;
    const rows = arrays.map((array) => waiting(array, this.#names.get(array.userid) ?? String(array.userid)));
    this.#waiting = new Map(rows.map((row) => [row.id, row]));
    this.#tell();
  }

  /** Takes these jobs for all that there are. */
  replace(listed) {
    this.#jobs = new Map();
    this.#inactive = 0;
    this.update(listed);
  }

  /** Takes these jobs as they are now. */
  update(listed) {
    for (const one of listed) {
      const job = known(one, this.#names.get(one.userid) ?? String(one.userid));
      this.#inactive += Number(job.inactive) - Number(this.#jobs.get(job.id)?.inactive ?? false);
      this.#jobs.set(job.id, job);
    }
    if (this.size > MOST) this.#forget(this.size - Math.floor(MOST * 0.95));
    this.#tell();
  }

  /** How many cores jobs have. */
  cores() {
    let cores = 0;
    for (const { kind, ncores } of this.#jobs.values()) if (kind === "running" || kind === "ending") cores += ncores ?? 0;
    return cores;
  }

  /** The users of jobs whose names are not known. */
  unnamed() {
    const userids = new Set();
    for (const { userid } of this.rows()) if (!this.#names.has(userid)) userids.add(userid);
    return [...userids];
  }

  /** Takes what jobs wait for now; those that were asked about and aren't among them wait for nothing. */
  explain(asked, waiting) {
    const words = new Map(waiting.map(({ id, why }) => [String(id), why]));
    for (const id of asked) {
      const job = this.#jobs.get(id);
      if (job) job.why = words.get(id);
    }
    this.#tell();
  }

  /** Takes the names of users. */
  name(users) {
    for (const { userid, name } of users) this.#names.set(userid, name);
    this.takeArrays(this.#arrays);
    this.update([...this.#jobs.values()]);
  }

  /** Forgets jobs that the manager has removed, when it has this many inactive ones. They are those that ended first. */
  keepInactive(count) {
    if (this.#inactive <= count) return;
    this.#forget(this.#inactive - count);
    this.#tell();
  }

  remove(id) {
    if (this.#jobs.get(id)?.inactive) this.#inactive -= 1;
    if (this.#jobs.delete(id)) this.#tell();
  }

  #forget(count) {
    const ended = [...this.values()].filter((job) => job.inactive);
    ended.sort((a, b) => (a.t_inactive ?? 0) - (b.t_inactive ?? 0));
    for (const job of ended.slice(0, count)) {
      this.#jobs.delete(job.id);
      this.#inactive -= 1;
    }
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
