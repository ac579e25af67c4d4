//! `report.html`: one file that needs no network, with charts of the results of each policy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jobtap_core::host::HandlerStats;
use jobtap_core::simulation::{Distribution, Group, Metrics, SimulatedJob, Span};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, colour, cumulative, escaped, ranges, shares, short};
use crate::run::PolicyRun;
use crate::series::Series;
use crate::source::remarks;
use crate::summary::{PolicySummary, Summary};

/// How many groups a chart shows: those with the most core seconds.
const GROUPS: usize = 24;

/// A page that is being written.
struct Page {
    html: String,
    /// The legend with the colors of the policies, for each chart; empty if there is only one policy.
    keys: String,
}

/// The report. `reproducible` leaves out what differs from run to run: the time that handlers took.
pub fn report_page(summary: &Summary, runs: &[PolicyRun], reproducible: bool) -> String {
    let mut page = Page { html: String::new(), keys: keys(summary) };
    let _ = write!(
        page.html,
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\
         <title>{0}</title><style>{1}</style><h1>{0}</h1>",
        escaped(&summary.trace),
        include_str!("report.css")
    );
    heading(&mut page, summary);
    comparison(&mut page, summary);
    waits(&mut page, summary);
    over_time(&mut page, summary);
    distributions(&mut page, runs);
    by_group(&mut page, summary);
    for (index, (policy, run)) in summary.policies.iter().zip(runs).enumerate() {
        gantt(&mut page, index, policy, run);
    }
    for (policy, run) in summary.policies.iter().zip(runs) {
        plugins(&mut page, policy, &run.results.plugins, reproducible);
    }
    definitions(&mut page);
    let script = include_str!("report.js");
    let Page { mut html, .. } = page;
    let _ = writeln!(html, "<div id=tip></div><script>{script}</script></html>");
    html
}

/// A square in the color of a policy.
fn key(index: usize) -> String {
    format!("<span class=key style=\"background:{}\"></span>", colour(index))
}

fn keys(summary: &Summary) -> String {
    if summary.policies.len() < 2 {
        return String::new();
    }
    let policies = summary.policies.iter().enumerate();
    let each = policies.map(|(index, policy)| key(index) + &escaped(&policy.policy));
    format!("<span class=keys>{}</span>", each.collect::<String>())
}

fn heading(page: &mut Page, summary: &Summary) {
    page.html.push_str("<p>");
    for (index, policy) in summary.policies.iter().enumerate() {
        let _ = write!(
            page.html,
            "{}<b>{}</b> {}, scheduler {}{}<br>",
            key(index),
            escaped(&policy.policy),
            escaped(&policy.machine),
            escaped(&policy.schedulers.join(", ")),
            if policy.interrupted { " (interrupted: figures so far)" } else { "" }
        );
    }
    page.html.push_str("</p>");
    let lines: Vec<String> = summary.policies.first().map(|p| remarks(&p.read)).unwrap_or_default();
    if !lines.is_empty() {
        let _ = write!(page.html, "<p class=remarks>{}</p>", escaped(&lines.join("\n")));
    }
}

fn comparison(page: &mut Page, summary: &Summary) {
    page.html.push_str("<h2>Figures</h2><table><thead><tr><th></th>");
    for policy in &summary.policies {
        let _ = write!(page.html, "<th>{}</th>", escaped(&policy.policy));
    }
    page.html.push_str("</tr></thead>");
    for (name, value) in super::summary::FIGURES {
        let _ = write!(page.html, "<tr><td>{name}</td>");
        for policy in &summary.policies {
            let _ = write!(page.html, "<td>{}</td>", escaped(&value(&policy.metrics)));
        }
        page.html.push_str("</tr>");
    }
    page.html.push_str("</table>");
}

/// What jobs waited for, as shares of all their waiting and in job hours.
fn waits(page: &mut Page, summary: &Summary) {
    let mut words: Vec<&str> = Vec::new();
    for (word, _) in summary.policies.iter().flat_map(PolicySummary::shares_waited) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.is_empty() {
        return;
    }
    page.html.push_str("<h2>What jobs waited for</h2><table><thead><tr><th></th>");
    for policy in &summary.policies {
        let _ = write!(page.html, "<th>{}</th>", escaped(&policy.policy));
    }
    page.html.push_str("</tr></thead>");
    for word in words {
        let _ = write!(page.html, "<tr><td>{word}</td>");
        for policy in &summary.policies {
            let share = policy.shares_waited().into_iter().find(|(known, _)| *known == word);
            let hours = policy.waited_for.get(word).copied().unwrap_or(0.0);
            let share = 100.0 * share.map_or(0.0, |(_, share)| share);
            let _ = write!(page.html, "<td>{share:.1} %, {hours:.1} job hours</td>");
        }
        page.html.push_str("</tr>");
    }
    page.html.push_str(
        "</table><p>The words are those of <code>jobtap jobs -o '{why}'</code>: <code>order</code> is jobs \
         that go first, <code>resources</code> the first job of a queue, which waits for others to end.</p>",
    );
}

fn over_time(page: &mut Page, summary: &Summary) {
    let series = || summary.policies.iter().map(|policy| &policy.series);
    let end = |of: &Series| of.from + of.step * of.utilization.len() as f64;
    let last = series().map(end).fold(0.0, f64::max);
    let time = (
        Axis::Linear(last / 86_400.0),
        "days from the start of the trace",
        plain as fn(f64) -> String,
    );
    let points = |of: &Series, values: &[f64]| -> Vec<(f64, f64)> {
        let (from, step) = (of.from, of.step);
        let at = move |index: usize| (from + (index as f64 + 0.5) * step) / 86_400.0;
        values.iter().enumerate().map(|(index, value)| (at(index), *value)).collect()
    };
    let mut chart = Chart::new(time, (Axis::Linear(1.0), "allocated cores", percent_axis));
    for (index, (policy, of)) in summary.policies.iter().zip(series()).enumerate() {
        chart.line(index, &policy.policy, points(of, &of.utilization));
    }
    figure(page, "Utilization", "The share of the cores that were allocated.", &chart.finish());
    let most = series().flat_map(|of| of.pending.iter().copied()).fold(1.0, f64::max);
    let mut chart = Chart::new(time, (Axis::Linear(most), "pending jobs", plain));
    for (index, (policy, of)) in summary.policies.iter().zip(series()).enumerate() {
        chart.line(index, &policy.policy, points(of, &of.pending));
    }
    figure(
        page,
        "Queue length",
        "Jobs that were submitted and had no resources yet.",
        &chart.finish(),
    );
}

fn distributions(page: &mut Page, runs: &[PolicyRun]) {
    let values = |of: fn(&SimulatedJob) -> Option<f64>| -> Vec<Vec<f64>> {
        let each = |run: &PolicyRun| run.results.jobs.iter().filter_map(of).collect();
        runs.iter().map(each).collect()
    };
    let mut draw = |title: &str, what: &str, values: Vec<Vec<f64>>, (axis, shown): Scale| {
        let most = values.iter().flatten().copied().fold(10.0, f64::max);
        let y = shares(&values, 1.0);
        let label = title.to_lowercase();
        let x = (axis(most), &*label, shown);
        let mut chart = Chart::new(x, (y, "share of the jobs", percent_axis));
        for (index, (run, values)) in runs.iter().zip(values).enumerate() {
            chart.line(index, &run.policy, cumulative(values));
        }
        let from = match y {
            Axis::Part(least, _) => format!(" The shares begin at {}.", percent_axis(least)),
            _ => String::new(),
        };
        figure(page, title, &format!("The share of the jobs {what}{from}"), &chart.finish());
    };
    draw(
        "Wait",
        "that waited no longer than this. Jobs that waited less than a second are at the left edge.",
        values(SimulatedJob::wait),
        (Axis::Time, short),
    );
    draw(
        "Bounded slowdown",
        "with at most this bounded slowdown.",
        values(SimulatedJob::slowdown),
        (|most| Axis::Log(1.0, most), plain),
    );
}

/// Makes an axis up to a maximum, and the texts at its lines.
type Scale = (fn(f64) -> Axis, fn(f64) -> String);

fn by_group(page: &mut Page, summary: &Summary) {
    type Groups = fn(&Metrics) -> &Vec<Group>;
    let kinds: [(&str, Groups); 3] =
        [("user", |m| &m.users), ("size in cores", |m| &m.sizes), ("queue", |m| &m.queues)];
    for (kind, groups) in kinds {
        let Some(first) = summary.policies.first().map(|policy| groups(&policy.metrics)) else {
            return;
        };
        if first.len() < 2 {
            continue;
        }
        let mut largest: Vec<&Group> = first.iter().collect();
        largest.sort_by(|a, b| b.core_seconds.total_cmp(&a.core_seconds));
        largest.truncate(GROUPS);
        if kind != "user" {
            largest.sort_by_key(|group| first.iter().position(|other| other.name == group.name));
        }
        let rows = |of: fn(&Group) -> Distribution| -> Vec<(String, Vec<Distribution>)> {
            let row = |group: &&Group| {
                let same = |policy: &PolicySummary| {
                    let found =
                        groups(&policy.metrics).iter().find(|other| other.name == group.name);
                    found.map(of).unwrap_or_default()
                };
                (group.name.clone(), summary.policies.iter().map(same).collect())
            };
            largest.iter().map(row).collect()
        };
        let most = if first.len() > GROUPS {
            format!(" The {GROUPS} with the most core hours.")
        } else {
            String::new()
        };
        let wait = ranges(&rows(|group| group.wait), Axis::Time, short);
        let text = format!("Waits of less than a second are at the left edge.{most}");
        figure(page, &format!("Wait by {kind}"), &text, &wait);
        let slowdown = ranges(&rows(|group| group.slowdown), |most| Axis::Log(1.0, most), plain);
        figure(page, &format!("Bounded slowdown by {kind}"), &most, &slowdown);
    }
}

/// The Gantt chart of one policy.
fn gantt(page: &mut Page, index: usize, policy: &PolicySummary, run: &PolicyRun) {
    let Some(Bars { jobs, data }) = Bars::from_run(run) else { return };
    // Escaped, since the text is inside a script element.
    let data = data.to_string().replace("</", "<\\/");
    let which = if jobs < policy.metrics.submitted {
        format!("The first {jobs} jobs that started. ")
    } else {
        String::new()
    };
    let _ = write!(
        page.html,
        "<h2>Gantt chart: {0}</h2><p>{which}Time goes to the right, the cores of the machine downwards; each user has a colour. \
         The wheel zooms in time, with Shift in cores; drag to move, double click for everything. Keys: + and - zoom in \
         time, ] and [ in cores, arrows move, 0 shows everything.</p>\
         <script type=\"application/json\" id=gantt{index}>{data}</script>\
         <canvas data-of=gantt{index} tabindex=0 role=img aria-label=\"Gantt chart: {0}\"></canvas>",
        escaped(&policy.policy)
    );
}

/// The bars of a Gantt chart, as the script of the page reads them.
struct Bars {
    /// How many jobs they show.
    jobs: u64,
    data: Value,
}

impl Bars {
    /// The bars of the jobs whose cores are known; `None` if no job has known cores.
    fn from_run(run: &PolicyRun) -> Option<Self> {
        let results = &run.results;
        let cores = run.resources.iter().filter_map(|node| node.children().cores().last());
        // Rows are cores, the same number for each node.
        let per_node = cores.max().unwrap_or(0) + 1;
        let mut users: Vec<u32> = Vec::new();
        let mut places: BTreeMap<u32, usize> = BTreeMap::new();
        let mut bars: Vec<Value> = Vec::new();
        let (mut from, mut to, mut jobs) = (f64::INFINITY, 0.0f64, 0u64);
        for job in &results.jobs {
            // Users of jobs without bars count, too, so that each user has the same color with all policies.
            let user = *places.entry(job.user).or_insert_with(|| {
                users.push(job.user);
                users.len() - 1
            });
            let (Some(start), false) = (job.allocated, job.place.is_empty()) else { continue };
            let end = job.freed.unwrap_or(results.end);
            jobs += 1;
            (from, to) = (from.min(start), to.max(end));
            let wait = job.wait().unwrap_or(0.0);
            for (row, rows) in job.place.iter().flat_map(|span| rows_of(*span, per_node)) {
                let length = end - start;
                bars.push(json!([start, length, row, rows, user, job.number, job.cores, wait]));
            }
        }
        let names: Vec<String> = users.iter().map(|user| format!("user {user}")).collect();
        let cores = run.resources.nnodes() as u64 * u64::from(per_node);
        let data = json!({"from": from, "to": to, "cores": cores, "users": names, "bars": bars});
        (jobs > 0).then_some(Self { jobs, data })
    }
}

/// The rows of some cores: for each bar, its first row and the number of its rows. Whole nodes are one bar.
fn rows_of(span: Span, per_node: u32) -> Vec<(u32, u32)> {
    let first = span.rank.saturating_mul(per_node);
    if span.cores == per_node {
        return vec![(first, span.nodes.saturating_mul(per_node))];
    }
    let row = |node| first.saturating_add(node * per_node).saturating_add(span.core);
    (0..span.nodes).map(|node| (row(node), span.cores)).collect()
}

fn plugins(
    page: &mut Page,
    policy: &PolicySummary,
    handlers: &[(String, Vec<HandlerStats>)],
    reproducible: bool,
) {
    let _ = write!(
        page.html,
        "<h2>Plugins: {}</h2><table><thead><tr><th>plugin</th><th>calls</th><th>priorities</th>\
         <th>refusals and errors</th><th>panics</th>{}</tr></thead>",
        escaped(&policy.policy),
        if reproducible { "" } else { "<th>time (one call in 64 is timed)</th>" }
    );
    for (plugin, (_, handlers)) in policy.plugins.iter().zip(handlers) {
        if plugin.calls == 0 {
            continue;
        }
        let asked = ["job.state.priority", "job.priority.get"];
        let priorities: u64 = asked.iter().filter_map(|topic| plugin.topics.get(*topic)).sum();
        let _ = write!(
            page.html,
            "<tr><td>{}</td><td>{}</td><td>{priorities}</td><td>{}</td><td>{}</td>",
            escaped(&plugin.name),
            plugin.calls,
            plugin.errors,
            plugin.panics
        );
        if !reproducible {
            let seconds: f64 = handlers.iter().map(time_of).sum();
            let _ = write!(page.html, "<td>{:.1} ms</td>", seconds * 1e3);
        }
        page.html.push_str("</tr>");
    }
    page.html.push_str("</table>");
    let mut lines = policy.unusual(usize::MAX);
    lines.extend(policy.log.iter().cloned());
    if !lines.is_empty() {
        let _ = write!(page.html, "<p class=remarks>{}</p>", escaped(&lines.join("\n")));
    }
}

/// About how long the calls of a handler took, in seconds.
fn time_of(handler: &HandlerStats) -> f64 {
    let (mut timed, mut nanoseconds) = (0.0, 0.0);
    for (below, calls) in handler.histogram() {
        timed += f64::from(calls);
        // A bucket goes from half its upper bound to the bound, so its middle is at three quarters.
        nanoseconds += 0.75 * below as f64 * f64::from(calls);
    }
    if timed > 0.0 { nanoseconds / timed * handler.calls as f64 / 1e9 } else { 0.0 }
}

fn definitions(page: &mut Page) {
    page.html.push_str(
        "<h2>Definitions</h2><p>Wait: from submission to start. Turnaround: from submission to end. Bounded slowdown: \
         turnaround / max(run time, 10 s), at least 1 (Feitelson et al. 1997). Utilization: core seconds allocated / \
         (cores × time from the first submission to the last end). Fairness: Jain's index (Jain, Chiu, Hawe 1984) over the \
         users' mean bounded slowdown; 1 when all fare alike. Backfill rate: the share of jobs that got resources while a \
         job of their queue was before them.</p>",
    );
}

fn figure(page: &mut Page, title: &str, text: &str, svg: &str) {
    let _ = write!(
        page.html,
        "<h2>{}</h2><figure><figcaption>{}{}</figcaption>{svg}</figure>",
        escaped(title),
        escaped(text),
        page.keys
    );
}

fn plain(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    rounded.to_string()
}

fn percent_axis(share: f64) -> String {
    format!("{} %", plain(share * 100.0))
}
