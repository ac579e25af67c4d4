// Nodes over time: a row for each node, with a bar for each job that had it.

import { now } from "./api.js";
import { $, color, el, setText, throttled } from "./dom.js";
import { matcher } from "./jobs.js";
import { Rows } from "./rows.js";
import { clock, counted, duration, hosts, idset, number } from "./text.js";

const ROW = 28;
/** What stays free above and below the bars. */
const EDGE = 3;
/** The share of the time shown that lies in the future. */
const AHEAD = 0.15;
const KINDS = ["running", "ending", "completed", "failed", "timeout", "canceled"];

/** The least share of a row's height at which a bar can be seen and pointed at. */
const LEAST = 0.1;

/**
 * Gives each of these bars, which are sorted by their start, the uppermost place that is free while it lasts: a bar is as
 * high as its share of the node, so that a full row is a full node. Bars that have no place lie over others.
 */
function stack(bars) {
  let beside = [];
  for (const bar of bars) {
    beside = beside.filter((other) => other.to > bar.from);
    let top = 0;
    let at = 0;
    for (; at < beside.length && beside[at].top - top < bar.share - 1e-6; at++) {
      top = Math.max(top, beside[at].top + beside[at].share);
    }
    bar.top = Math.max(0, Math.min(top, 1 - bar.share));
    beside.splice(at, 0, bar);
  }
}

export class Gantt {
  #jobs;
  #rows;
  #open;
  #nodes = new Map();
  #bars = new Map();
  #chosen = null;
  /** How many nodes jobs have. */
  #busy = 0;
  #ranks = new Map();
  /** Whether the time that is shown has been chosen, by the user or once by the age of the jobs. */
  #fitted = false;

  constructor(jobs, open) {
    this.#jobs = jobs;
    this.#open = open;
    this.#rows = new Rows($("gantt"), {
      head: el("div", { role: "row", class: "row columns", "aria-rowindex": 1 },
        el("span", { role: "columnheader", class: "cell node" }, "Node"),
        el("span", { role: "columnheader", class: "cell node-state" }, "State"),
        el("span", { role: "columnheader", class: "cell time" }, el("canvas", { id: "axis", "aria-hidden": "true" }), el("span", { class: "hidden" }, "Jobs"))),
      height: ROW,
      make: () => [
        el("span", { role: "gridcell", class: "cell node" }),
        el("span", { role: "gridcell", class: "cell node-state" }),
        el("span", { role: "gridcell", class: "cell time" }, el("canvas", { "aria-hidden": "true" }), el("span", { class: "hidden" })),
      ],
      fill: (row, rank) => this.#fill(row, rank),
      open: (rank, event) => this.#choose(rank, event),
    });
    $("gantt-legend").append(...KINDS.map((kind) =>
      el("li", { class: `kind-${kind}` }, el("span", { class: "dot", "aria-hidden": "true" }), kind)));
    const grid = $("gantt");
    grid.addEventListener("mousemove", (event) => this.#hover(event));
    grid.addEventListener("keydown", (event) => this.#step(event));
    jobs.addEventListener("change", throttled(1000, () => this.refresh()));
    $("window").addEventListener("change", () => {
      this.#fitted = true;
      this.refresh();
    });
    $("node-filter").addEventListener("input", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
    setInterval(() => this.refresh(), 2000);
  }

  /** Takes the response of `resource.status`. */
  take(status) {
    const { R_lite: groups = [], nodelist = [] } = status.R?.execution ?? {};
    const names = nodelist.flatMap(hosts);
    const ranks = groups.flatMap((group) => idset(group.rank).map((rank) => [rank, group.children ?? {}]));
    ranks.sort(([a], [b]) => a - b);
    const has = (text) => new Set(idset(text));
    const [offline, excluded, kept] = [has(status.offline), has(status.exclude), has(status.housekeeping)];
    this.#busy = idset(status.allocated).length;
    const drained = new Map();
    for (const [set, drain] of Object.entries(status.drain ?? {})) for (const rank of idset(set)) drained.set(rank, drain);
    const planned = (status.maintenance ?? []).map((one) => ({ ...one, ranks: has(one.ranks) }));
    this.#nodes = new Map(ranks.map(([rank, children], n) => {
      const drain = drained.get(rank);
      const state = offline.has(rank) ? "offline" : drain ? "drained" : excluded.has(rank) ? "excluded" : kept.has(rank) ? "cleaning" : "up";
      const name = names[n] ?? `rank ${rank}`;
      const reason = drain?.reason ?? "";
      const maintenance = planned.filter((one) => one.ranks.has(rank));
      const cores = idset(children.core).length;
      return [String(rank), { name, state, reason, maintenance, cores, search: `${name} ${state} ${reason}`.toLowerCase() }];
    }));
    this.refresh();
  }

  /** How many nodes are in which state, and how many of them jobs have. */
  counts() {
    const counts = { all: this.#nodes.size, busy: this.#busy, cores: 0, up: 0, drained: 0, offline: 0, excluded: 0, cleaning: 0 };
    for (const { state, cores } of this.#nodes.values()) {
      counts[state] += 1;
      counts.cores += cores;
    }
    return counts;
  }

  /** Ranks of jobs are the same sets again and again. */
  #ranksOf(job) {
    const text = job.ranks ?? "";
    if (!this.#ranks.has(text)) {
      if (this.#ranks.size > 5000) this.#ranks.clear();
      this.#ranks.set(text, idset(text).map(String));
    }
    return this.#ranks.get(text);
  }

  #span() {
    const length = Number($("window").value);
    const to = now() + length * AHEAD;
    return { from: to - length, to };
  }

  /** Shows the shortest time in which all jobs so far have a place, at most the one that is chosen in the document. */
  #fit() {
    let first = Infinity;
    for (const { began } of this.#jobs.values()) if (began < first) first = began;
    if (this.#fitted || !Number.isFinite(first)) return;
    this.#fitted = true;
    const select = $("window");
    const enough = [...select.options].find(({ value }) => Number(value) * (1 - AHEAD) > now() - first);
    if (enough && Number(enough.value) < Number(select.value)) select.value = enough.value;
  }

  refresh() {
    if ($("nodes").hidden) return;
    this.#fit();
    const { from, to } = this.#span();
    this.#bars = new Map();
    for (const job of this.#jobs.values()) {
      if (job.began === undefined || job.began > to || !job.ranks) continue;
      const end = job.ended ?? now();
      if (end < from) continue;
      const until = job.ended === undefined && job.duration && job.expiration > end ? job.expiration : undefined;
      for (const rank of this.#ranksOf(job)) {
        if (!this.#bars.has(rank)) this.#bars.set(rank, []);
        const cores = this.#nodes.get(rank)?.cores;
        const share = cores && job.ncores ? Math.min(1, Math.max(LEAST, job.ncores / (job.nnodes || 1) / cores)) : 1;
        this.#bars.get(rank).push({ id: job.id, kind: job.kind, from: job.began, to: end, until, share });
      }
    }
    for (const bars of this.#bars.values()) {
      bars.sort((a, b) => a.from - b.from);
      stack(bars);
    }
    const has = matcher($("node-filter").value);
    const shown = [...this.#nodes.keys()].filter((rank) => has(this.#nodes.get(rank).search));
    this.#rows.show(shown);
    this.#axis(from, to);
    setText($("node-shown"), shown.length === this.#nodes.size ? counted(shown.length, "node") : `${number(shown.length)} of ${number(this.#nodes.size)} nodes`);
  }

  #fill(row, rank) {
    const node = this.#nodes.get(rank);
    if (!node) return;
    const [name, state, time] = row.children;
    setText(name, node.name);
    const bars = this.#bars.get(rank) ?? [];
    setText(state, this.#stateOf(node, bars));
    state.title = state.textContent;
    row.className = row.className.replace(/ ?node-is-\w+/g, "") + ` node-is-${node.state}`;
    const running = bars.filter((bar) => bar.kind === "running").length;
    setText(time.lastChild, `${counted(running, "job")} running, ${counted(bars.length, "job")} in the time shown`);
    this.#paint(time.firstChild, node, bars, this.#chosen?.rank === rank ? this.#chosen.id : null);
  }

  /** The state of a node in words: why it gets no jobs, or else how much of it jobs have. */
  #stateOf(node, bars) {
    if (node.state !== "up") return node.reason ? `${node.state}: ${node.reason}` : node.state;
    const held = bars.filter((bar) => bar.kind === "running" || bar.kind === "ending");
    if (held.length === 0) return "up, idle";
    const used = held.reduce((sum, bar) => sum + Math.round(bar.share * node.cores), 0);
    return node.cores ? `up, ${Math.min(used, node.cores)} of ${counted(node.cores, "core")}` : "up";
  }

  #paint(canvas, node, bars, chosen) {
    const context = this.#ready(canvas, ROW);
    if (!context) return;
    const { from, to } = this.#span();
    const width = canvas.clientWidth;
    const x = (time) => ((Math.min(to, Math.max(from, time)) - from) / (to - from)) * width;
    context.fillStyle = color("line");
    for (const time of ticks(from, to)) context.fillRect(Math.round(x(time)), 0, 1, ROW);
    context.fillStyle = color("down");
    if (node.state === "offline" || node.state === "excluded") context.fillRect(0, 0, width, ROW);
    for (const one of node.maintenance) {
      const begin = x(one.from ?? from);
      context.fillRect(begin, 0, Math.max(2, x(one.to ?? to) - begin), ROW);
    }
    const height = ROW - 2 * EDGE;
    for (const bar of bars) {
      const [left, right, top] = [x(bar.from), x(bar.to), EDGE + bar.top * height];
      const size = Math.max(1, bar.share * height - 1);
      context.fillStyle = color(bar.kind);
      if (bar.until) {
        context.globalAlpha = 0.25;
        context.fillRect(right, top, x(bar.until) - right, size);
        context.globalAlpha = 1;
      }
      // What is over stands back. Between two jobs, one after the other, a line stays free.
      context.globalAlpha = bar.kind === "completed" ? 0.5 : 1;
      context.fillRect(left, top, Math.max(1, right - left - 1), size);
      context.globalAlpha = 1;
      if (bar.id === chosen) {
        context.strokeStyle = color("text");
        context.lineWidth = 2;
        context.strokeRect(left - 1, top - 1, Math.max(3, right - left + 1), size + 2);
      }
    }
    context.fillStyle = color("accent");
    context.fillRect(Math.round(x(now())), 0, 1, ROW);
  }

  #axis(from, to) {
    const canvas = $("axis");
    const context = this.#ready(canvas, ROW);
    if (!context) return;
    const width = canvas.clientWidth;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = color("quiet");
    for (const time of ticks(from, to)) {
      const at = ((time - from) / (to - from)) * width;
      if (at > 24 && at < width - 24) context.fillText(label(time, to - from), at, ROW / 2);
    }
  }

  /** A canvas of its size on the screen, empty. */
  #ready(canvas, height) {
    const [scale, width] = [devicePixelRatio || 1, canvas.clientWidth];
    if (width === 0) return null;
    if (canvas.width !== Math.round(width * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  /** The bar at a place on the screen. */
  #at(event) {
    const row = event.target.closest("[role=row]");
    const canvas = row?.querySelector("canvas");
    const bars = this.#bars.get(row?.dataset.key);
    if (!bars?.length) return null;
    const box = canvas.getBoundingClientRect();
    const { from, to } = this.#span();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    const slack = ((to - from) / box.width) * 2;
    const place = (event.clientY - box.top - EDGE) / (ROW - 2 * EDGE);
    const near = bars.filter((bar) => bar.from - slack <= time && time <= bar.to + slack);
    const distance = (bar) => Math.max(bar.top - place, place - bar.top - bar.share, 0);
    return near.sort((a, b) => distance(a) - distance(b))[0] ?? null;
  }

  #hover(event) {
    const bar = this.#at(event);
    $("gantt").classList.toggle("on-bar", bar !== null);
    setText($("bar-text"), bar ? this.#words(bar) : "");
  }

  #words(bar) {
    const job = this.#jobs.get(bar.id);
    return job ? `${job.short} ${job.name ?? ""}: ${job.kind}, from ${clock(bar.from)}, ${duration(bar.to - bar.from)}` : "";
  }

  #choose(rank, event) {
    const bar = event.type === "click" ? this.#at(event) : this.#chosen?.rank === rank ? this.#chosen : null;
    if (!bar) return;
    this.#chosen = { rank, id: bar.id };
    this.#open(bar.id);
  }

  /** Left and right go from job to job. */
  #step(event) {
    if (event.target !== $("gantt") || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const rank = this.#rows.active;
    const bars = this.#bars.get(rank) ?? [];
    if (bars.length === 0) return;
    event.preventDefault();
    const at = this.#chosen?.rank === rank ? bars.findIndex((bar) => bar.id === this.#chosen.id) : -1;
    const next = event.key === "ArrowRight" ? at + 1 : at < 0 ? bars.length - 1 : at - 1;
    const bar = bars[Math.min(bars.length - 1, Math.max(0, next))];
    this.#chosen = { rank, id: bar.id };
    setText($("bar-text"), this.#words(bar));
    this.#rows.draw();
  }
}

/** Round points in time. */
function* ticks(from, to) {
  const steps = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const step = steps.find((one) => (to - from) / one <= 10) ?? 86400;
  const zone = new Date().getTimezoneOffset() * 60;
  for (let time = Math.ceil((from - zone) / step) * step + zone; time < to; time += step) yield time;
}

function label(time, length) {
  const date = new Date(time * 1000);
  const two = (part) => String(part).padStart(2, "0");
  if (length > 2 * 86400) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return length <= 600 ? `${minutes}:${two(date.getSeconds())}` : minutes;
}
