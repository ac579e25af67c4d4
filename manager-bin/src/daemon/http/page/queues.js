// The table of queues.

import { $, el } from "./dom.js";
import { duration, number } from "./text.js";

const HEAD = ["Queue", "Submission", "Scheduling", "Pending", "Running", "Ended", "Nodes in use", "", "Down", "Longest job"];

/** Whether a queue accepts or schedules jobs, and if not, why. */
function status(on, yes, no, reason) {
  return el("span", { class: on ? "good" : "bad" }, on ? yes : no, reason ? `: ${reason}` : "");
}

/** Shows the responses of `job-manager.queue-overview` and, where it is not hidden, `job-list.job-stats`. */
export function showQueues(overview, stats) {
  const tallies = new Map((stats?.queues ?? []).map((queue) => [queue.name, queue.job_states]));
  const rows = overview.queues.map((queue) => {
    const states = queue.name === "" ? stats?.job_states : (tallies.get(queue.name) ?? (stats ? {} : undefined));
    const count = (...keys) => (states ? number(keys.reduce((sum, key) => sum + (states[key] ?? 0), 0)) : "hidden");
    const { all = {}, allocated = {}, down = {} } = queue.resources ?? {};
    const [total, used, lost] = [all.nnodes ?? 0, allocated.nnodes ?? 0, down.nnodes ?? 0];
    const meter = el("meter", { min: 0, max: Math.max(1, total), value: used, "aria-label": `${used} of ${total} nodes in use` });
    const name = [queue.name || "(anonymous)", queue.parent ? `, part of ${queue.parent}` : "", queue.default ? ", default" : ""];
    return el("tr", {},
      el("th", { scope: "row" }, name.join("")),
      el("td", {}, status(queue.enable, "enabled", "disabled", queue.disable_reason)),
      el("td", {}, status(queue.start, "started", "stopped", queue.stop_reason ?? queue.blocked)),
      el("td", { class: "numeric" }, count("depend", "priority", "sched")),
      el("td", { class: "numeric" }, count("run", "cleanup")),
      el("td", { class: "numeric" }, count("inactive")),
      el("td", { class: "numeric" }, `${number(used)} of ${number(total)}`),
      el("td", {}, meter),
      el("td", { class: `numeric${lost ? " bad" : ""}` }, number(lost)),
      el("td", { class: "numeric" }, queue.limits?.timelimit ? duration(queue.limits.timelimit) : "no limit"));
  });
  const numeric = new Set(["Pending", "Running", "Ended", "Nodes in use", "Down", "Longest job"]);
  const head = HEAD.map((title) => (title
    ? el("th", { scope: "col", class: numeric.has(title) ? "numeric" : undefined }, title)
    : el("td", {})));
  $("queue-table").replaceChildren(
    el("caption", { class: "hidden" }, "Queues with their jobs and nodes"),
    el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
