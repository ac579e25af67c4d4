// The stack of plugins: what each handler did, how long it took, and what is out of service. The numbers are those of
// `/metrics`.

import { $, el, setText } from "./dom.js";
import { counted, moment, number } from "./text.js";

const HEAD = ["", "Plugin", "State", "Calls", "Errors", "Panics", "Half below", "99 % below", "Times of calls, 1 µs to 1 s"];

/** The samples of a text for Prometheus, by the names of their metrics. */
function samples(text) {
  const all = new Map();
  for (const line of text.split("\n")) {
    const parts = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!parts) continue;
    const labels = {};
    for (const [, key, value] of (parts[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[key] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    if (!all.has(parts[1])) all.set(parts[1], []);
    all.get(parts[1]).push({ labels, value: Number(parts[3]) });
  }
  return all;
}

/** What several handlers did together. */
class Sum {
  calls = 0;
  errors = 0;
  panics = 0;
  /** How many calls took less than each bound. */
  below = new Map();

  /** How many calls were timed between a bound and the one before it. */
  buckets() {
    const bounds = [...this.below.keys()].sort((a, b) => a - b);
    return bounds.map((bound, n) => [bound, this.below.get(bound) - (n ? this.below.get(bounds[n - 1]) : 0)]);
  }

  /** The bound below which this share of the timed calls lies. */
  quantile(share) {
    const buckets = this.buckets();
    const total = buckets.reduce((sum, [, count]) => sum + count, 0);
    let sum = 0;
    for (const [bound, count] of buckets) {
      sum += count;
      if (total > 0 && sum >= share * total) return bound;
    }
    return NaN;
  }
}

/** Plugins in their order, each with its handlers. */
function stack(all) {
  const plugins = new Map();
  for (const { labels, value } of all.get("jobtap_plugin_faulted") ?? []) {
    plugins.set(labels.plugin, { faulted: value === 1, sum: new Sum(), handlers: new Map() });
  }
  const add = (metric, count) => {
    for (const { labels, value } of all.get(metric) ?? []) {
      const plugin = plugins.get(labels.plugin);
      if (!plugin) continue;
      const name = `${labels.topic} · ${labels.handler}`;
      if (!plugin.handlers.has(name)) plugin.handlers.set(name, new Sum());
      for (const sum of [plugin.sum, plugin.handlers.get(name)]) count(sum, value, labels);
    }
  };
  add("jobtap_callbacks_total", (sum, value) => { sum.calls += value; });
  add("jobtap_callback_errors_total", (sum, value) => { sum.errors += value; });
  add("jobtap_callback_panics_total", (sum, value) => { sum.panics += value; });
  add("jobtap_callback_duration_seconds_bucket", (sum, value, { le }) => {
    const bound = le === "+Inf" ? Infinity : Number(le);
    sum.below.set(bound, (sum.below.get(bound) ?? 0) + value);
  });
  return plugins;
}

/** The histogram of the timed calls. */
function histogram(sum) {
  const buckets = sum.buckets();
  const most = Math.max(1, ...buckets.map(([, count]) => count));
  const words = buckets.filter(([, count]) => count).map(([bound, count]) => `${count} below ${moment(bound)}`);
  const label = words.length ? `Timed calls: ${words.join(", ")}` : "No call was timed";
  const bars = buckets.map(([bound, count]) => {
    const bar = el("span", { title: `${number(count)} below ${moment(bound)}` });
    bar.style.height = count ? `${Math.max(8, (Math.log1p(count) / Math.log1p(most)) * 100)}%` : "1px";
    return bar;
  });
  return el("span", { class: "histogram", role: "img", "aria-label": label }, ...bars);
}

function cells(sum) {
  const count = (value, bad) => el("td", { class: `numeric${bad && value ? " bad" : ""}` }, number(value));
  return [
    count(sum.calls), count(sum.errors), count(sum.panics, true),
    el("td", { class: "numeric" }, moment(sum.quantile(0.5))),
    el("td", { class: "numeric" }, moment(sum.quantile(0.99))),
    el("td", {}, histogram(sum)),
  ];
}

export class PluginTable {
  /** The plugins whose handlers are shown. */
  #open = new Set();
  /** Kept when the rows are made anew, since a click begins and ends on one element. */
  #buttons = new Map();
  #text = "";
  #events = null;

  show(text) {
    this.#text = text;
    const all = samples(text);
    const plugins = stack(all);
    const order = [...plugins.keys()];
    const rows = order.flatMap((name, n) => this.#rows(name, n, plugins.get(name)));
    const numeric = new Set(["Calls", "Errors", "Panics", "Half below", "99 % below"]);
    const head = HEAD.map((title) => (title
      ? el("th", { scope: "col", class: numeric.has(title) ? "numeric" : undefined }, title)
      : el("td", {})));
    const focused = document.activeElement?.dataset?.plugin;
    $("plugin-table").replaceChildren(
      el("caption", { class: "hidden" }, "Plugins in the order in which they are called"),
      el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
    if (focused !== undefined) this.#buttons.get(focused)?.focus();
    this.#engine(all, plugins);
  }

  /** Says in words why there is nothing to show. */
  refuse(words) {
    $("plugin-table").replaceChildren();
    setText($("engine"), words);
  }

  #newButton(name) {
    const button = el("button", { type: "button", class: "disclose", "data-plugin": name }, name);
    button.addEventListener("click", () => {
      if (!this.#open.delete(name)) this.#open.add(name);
      this.show(this.#text);
    });
    this.#buttons.set(name, button);
    return button;
  }

  #rows(name, n, { faulted, sum, handlers }) {
    const open = this.#open.has(name);
    const button = this.#buttons.get(name) ?? this.#newButton(name);
    button.setAttribute("aria-expanded", String(open));
    const row = el("tr", { class: faulted ? "faulted" : undefined },
      el("td", { class: "numeric quiet" }, String(n + 1)),
      el("th", { scope: "row" }, button),
      el("td", {}, el("span", { class: faulted ? "bad" : "good" }, faulted ? "out of service" : "in service")),
      ...cells(sum));
    if (!open) return [row];
    const parts = [...handlers].map(([handler, part]) => el("tr", { class: "part" },
      el("td", {}), el("th", { scope: "row" }, handler), el("td", {}), ...cells(part)));
    return [row, ...parts];
  }

  #engine(all, plugins) {
    const total = all.get("jobtap_events_total")?.[0]?.value ?? 0;
    const at = performance.now();
    const rate = this.#events ? ((total - this.#events.total) * 1000) / (at - this.#events.at) : NaN;
    // A row that is opened shows the same numbers again.
    if (!this.#events || total !== this.#events.total || at - this.#events.at > 2000) this.#events = { total, at };
    const commits = new Sum();
    for (const { labels, value } of all.get("jobtap_commit_duration_seconds_bucket") ?? []) {
      commits.below.set(labels.le === "+Inf" ? Infinity : Number(labels.le), value);
    }
    const faults = [...plugins.values()].filter(({ faulted }) => faulted).length;
    const words = [
      faults ? `${counted(faults, "plugin")} out of service` : "all plugins in service",
      counted(total, "event"),
      Number.isFinite(rate) ? `${rate.toFixed(rate < 10 ? 1 : 0)} a second` : "",
      `99 % of commits below ${moment(commits.quantile(0.99))}`,
    ];
    setText($("engine"), words.filter(Boolean).join(" · "));
  }
}
