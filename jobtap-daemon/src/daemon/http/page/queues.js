// The table of queues.

import { $, el } from "./dom.js";
import { duration, number } from "./text.js";

const HEAD = ["Queue", "Submission", "Scheduling", "Pending", "Running", "Ended", "Nodes in use", "Cores in use", "GPUs in use", "Longest job"];
/** What a queue's resources are counted in, by the manager's names and in words. */
const COUNTED = [["nnodes", "nodes"], ["ncores", "cores"], ["ngpus", "GPUs"]];

/** Whether a queue accepts or schedules jobs, and if not, why. */
function status(on, yes, no, reason) {
  return el("span", { class: on ? "good" : "bad" }, on ? yes : no, reason ? `: ${reason}` : "");
}

/** How much is in use, as a bar that is as long as all there is, with what is down at its end. */
function share({ all = {}, allocated = {}, down = {} } = {}, key, what) {
  const [total, used, lost] = [all[key] ?? 0, allocated[key] ?? 0, down[key] ?? 0];
  if (total === 0) return el("td", { class: "quiet" }, "–");
  const [shown, missing] = [`${number(used)} of ${number(total)}`, lost ? `, ${number(lost)} down` : ""];
  // What is drained while jobs still have it is both.
  const parts = [["used", Math.min(used, total - lost)], ["lost", lost]];
  const bar = el("span", { class: "share", role: "img", "aria-label": `${shown} ${what}${missing}` }, ...parts.map(([name]) => el("span", { class: name })));
  parts.forEach(([, count], n) => { bar.children[n].style.width = `${(count / total) * 100}%`; });
  return el("td", {}, bar, shown, el("span", { class: "bad" }, missing));
}

/** Shows the responses of `job-manager.queue-overview` and, where it is not hidden, `job-list.job-stats`. */
export function showQueues(overview, stats) {
  const tallies = new Map((stats?.queues ?? []).map((queue) => [queue.name, queue.job_states]));
  const rows = overview.queues.map((queue) => {
    const states = queue.name === "" ? stats?.job_states : (tallies.get(queue.name) ?? (stats ? {} : undefined));
    const count = (...keys) => (states ? number(keys.reduce((sum, key) => sum + (states[key] ?? 0), 0)) : "hidden");
    const name = [queue.name || "(anonymous)", queue.parent ? `, part of ${queue.parent}` : "", queue.default ? ", default" : ""];
    return el("tr", {},
      el("th", { scope: "row" }, name.join("")),
      el("td", {}, status(queue.enable, "enabled", "disabled", queue.disable_reason)),
      el("td", {}, status(queue.start, "started", "stopped", queue.stop_reason ?? queue.blocked)),
      el("td", { class: "numeric" }, count("depend", "priority", "sched")),
      el("td", { class: "numeric" }, count("run", "cleanup")),
      el("td", { class: "numeric" }, count("inactive")),
      ...COUNTED.map(([key, what]) => share(queue.resources, key, what)),
      el("td", { class: "numeric" }, queue.limits?.timelimit ? duration(queue.limits.timelimit) : "no limit"));
  });
  const numeric = new Set(["Pending", "Running", "Ended", "Longest job"]);
  const head = HEAD.map((title) => el("th", { scope: "col", class: numeric.has(title) ? "numeric" : undefined }, title));
  $("queue-table").replaceChildren(
    el("caption", { class: "hidden" }, "Queues with their jobs and nodes"),
    el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
