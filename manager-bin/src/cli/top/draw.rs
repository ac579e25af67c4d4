//! Draws the screen: numbers above, then queues, nodes and plugins where there is room, then the jobs. A small screen
//! shows only the chosen pane, a tiny one what fits.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as TextLine, Span};
use ratatui::widgets::{Clear, Paragraph, Row, Table};

use super::lines::{Line, Missing, Tone};
use super::view::{Pane, Scroll, View};
use crate::cli::common::format::fsd;

/// The minimum width and height at which all panes are shown.
const ALL_PANES: (u16, u16) = (80, 22);

/// The minimum height at which the numbers take three lines instead of one.
const ALL_NUMBERS: u16 = 10;

/// The heading and the width of each column; 0 means the remaining width.
type Columns = &'static [(&'static str, u16)];

const JOBS: Columns = &[
    ("JOBID", 12),
    ("QUEUE", 8),
    ("USER", 8),
    ("ST", 2),
    ("NTASKS", 6),
    ("NODES", 5),
    ("TIME", 8),
    ("NAME", 16),
    ("INFO", 0),
];

const QUEUES: Columns = &[
    ("QUEUE", 0),
    ("SUBMIT", 8),
    ("SCHED", 7),
    ("PEND", 7),
    ("RUN", 6),
    ("NODES", 9),
    ("CORES", 11),
    ("IN USE", 10),
];

const NODES: Columns = &[("NODES", 12), ("COUNT", 6), ("HOSTS", 0), ("REASON", 12)];

const PLUGINS: Columns = &[
    ("PLUGIN", 0),
    ("STATE", 7),
    ("CALLS", 9),
    ("ERR", 5),
    ("PANIC", 5),
    ("P50<", 6),
    ("P99<", 6),
];

const HELP: &str = "\
up/down j/k      move             Home/End g/G   first, last
PgUp/PgDn        move by a page   Tab            next pane
Enter d          details of a job Esc q          back, quit
left/right h/l   limit to a queue a              inactive jobs too
/                filter           Ctrl-L         draw again

A filter has terms and words, all of which must fit:
  user=alice,bob queue=debug name=x state=run,failed host=n[0-9] rank=0-3
Terms select among all jobs. Words are looked for in the jobs that are listed.
Times of plugins are upper bounds over all their handlers; one call in 64 is timed.";

/// Draws the view, and sets in it the number of lines that its lists have on the screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, now: f64) {
    let area = frame.area();
    if area.width == 0 || area.height == 0 {
        return;
    }
    let numbers = match area.height {
        0..3 => 0,
        3..ALL_NUMBERS => 1,
        _ => 3,
    };
    let foot = u16::from(area.height > 1);
    let [head, body, bottom] = Layout::vertical([
        Constraint::Length(numbers),
        Constraint::Min(0),
        Constraint::Length(foot),
    ])
    .areas(area);
    draw_numbers(frame, head, view, now);
    if view.detail.is_some() {
        draw_detail(frame, body, view);
    } else if area.width >= ALL_PANES.0 && area.height >= ALL_PANES.1 {
        draw_all(frame, body, view);
    } else {
        draw_pane(frame, body, view, view.pane);
    }
    draw_foot(frame, bottom, view);
    if view.help {
        draw_help(frame, body);
    }
}

/// Draws the time, and the number of jobs in each state.
fn draw_numbers(frame: &mut Frame<'_>, area: Rect, view: &View, now: f64) {
    let Some(snapshot) = &view.snapshot else {
        frame.render_widget(Paragraph::new("asking the manager ..."), area);
        return;
    };
    let up = snapshot.uptime.map_or_else(|| "?".to_owned(), |up| fsd(up.floor()));
    let mut title = format!("jobtap top   up {up}   owner {}", snapshot.owner);
    let age = now - snapshot.at;
    // The manager is stopped or very busy: the screen says that it is outdated.
    if age > 10.0 {
        title.push_str(&format!("   NO ANSWER FOR {}", fsd(age.floor())));
    }
    let mut lines = vec![TextLine::from(title).style(Modifier::BOLD)];
    match &snapshot.stats {
        Ok(stats) => {
            let states = stats.all.job_states;
            let pending = states.depend + states.priority + states.sched;
            lines.push(TextLine::from(vec![
                Span::styled(format!("{} running", states.run), tone(Tone::Good)),
                Span::raw(format!(
                    "  {} cleanup  {pending} pending ({} depend, {} priority, {} sched)",
                    states.cleanup, states.depend, states.priority, states.sched
                )),
            ]));
            let bad = if stats.all.failed > 0 { Tone::Bad } else { Tone::Plain };
            lines.push(TextLine::from(vec![
                Span::raw(format!(
                    "{} inactive: {} completed  ",
                    states.inactive, stats.all.successful
                )),
                Span::styled(format!("{} failed", stats.all.failed), tone(bad)),
                Span::raw(format!(
                    "  {} canceled  {} timeout",
                    stats.all.canceled, stats.all.timeout
                )),
            ]));
        }
        Err(refused) => lines.push(TextLine::from(format!("numbers of jobs: {refused}"))),
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws all panes: three side by side or one above the other, then the jobs.
fn draw_all(frame: &mut Frame<'_>, area: Rect, view: &mut View) {
    let lines = |lines: Option<&Result<Vec<Line>, Missing>>| {
        let count = lines.and_then(|lines| lines.as_ref().ok()).map_or(1, |lines| lines.len());
        u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1)
    };
    let snapshot = view.snapshot.as_ref();
    let plugins = lines(snapshot.map(|snapshot| &snapshot.plugins));
    let queues = lines(snapshot.map(|snapshot| &snapshot.queues));
    let nodes = lines(snapshot.map(|snapshot| &snapshot.nodes));
    // The jobs have at least half of the screen.
    let most = area.height / 2;
    let [middle, jobs] = if area.width >= 2 * ALL_PANES.0 {
        // Queues above nodes, beside the plugins.
        let height = plugins.max(queues.saturating_add(nodes)).min(most);
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area)
    } else {
        let height = plugins.saturating_add(queues).saturating_add(nodes).min(most);
        Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area)
    };
    let third = middle.height / 3;
    if area.width >= 2 * ALL_PANES.0 {
        let [left, _, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)])
                .areas(middle);
        let height = queues.min(left.height.saturating_sub(nodes.min(left.height / 2)));
        let [first, second] =
            Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(left);
        draw_pane(frame, first, view, Pane::Queues);
        draw_pane(frame, second, view, Pane::Nodes);
        draw_pane(frame, right, view, Pane::Plugins);
    } else {
        let (queues, nodes) = (queues.min(third.max(2)), nodes.min(third.max(2)));
        let [first, second, last] = Layout::vertical([
            Constraint::Length(queues),
            Constraint::Length(nodes),
            Constraint::Min(0),
        ])
        .areas(middle);
        draw_pane(frame, first, view, Pane::Queues);
        draw_pane(frame, second, view, Pane::Nodes);
        draw_pane(frame, last, view, Pane::Plugins);
    }
    draw_pane(frame, jobs, view, Pane::Jobs);
}

/// Draws one pane with its headings.
fn draw_pane(frame: &mut Frame<'_>, area: Rect, view: &mut View, pane: Pane) {
    let chosen = view.pane == pane;
    let Some(snapshot) = &view.snapshot else { return };
    let (columns, lines, scroll) = match pane {
        Pane::Jobs => {
            let lines = match &snapshot.jobs {
                Ok(jobs) => {
                    view.jobs.page = usize::from(area.height.saturating_sub(1));
                    view.jobs.fit(jobs.len());
                    let scroll = view.jobs;
                    let shown = jobs.iter().skip(scroll.top).take(scroll.page);
                    Ok(shown.map(|job| &job.line).collect())
                }
                Err(refused) => Err(refused),
            };
            (JOBS, lines, view.jobs)
        }
        Pane::Queues | Pane::Nodes | Pane::Plugins => {
            let (columns, all, scroll) = match pane {
                Pane::Queues => (QUEUES, &snapshot.queues, view.others.get_mut(0)),
                Pane::Nodes => (NODES, &snapshot.nodes, view.others.get_mut(1)),
                _ => (PLUGINS, &snapshot.plugins, view.others.get_mut(2)),
            };
            let mut at = Scroll::default();
            if let Some(scroll) = scroll {
                scroll.page = usize::from(area.height.saturating_sub(1));
                scroll.fit(all.as_ref().map_or(0, Vec::len));
                at = *scroll;
            }
            let lines = match all {
                Ok(lines) => Ok(lines.iter().skip(at.top).take(at.page).collect()),
                Err(refused) => Err(refused),
            };
            (columns, lines, at)
        }
    };
    draw_table(frame, area, columns, lines, scroll, chosen);
}

/// Draws the lines of a pane that fit on the screen. An empty pane has a line with the reason.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: Columns,
    lines: Result<Vec<&Line>, &Missing>,
    scroll: Scroll,
    chosen: bool,
) {
    let lines = match lines {
        Ok(lines) => lines,
        Err(refused) => {
            let heading = columns.first().map_or("", |(heading, _)| *heading);
            frame.render_widget(Paragraph::new(format!("{heading}: {refused}")), area);
            return;
        }
    };
    let widths = columns.iter().map(|(_, width)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let rows = lines.iter().enumerate().map(|(index, line)| {
        let mut style = tone(line.tone);
        if chosen && scroll.top + index == scroll.chosen {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Row::new(line.cells.iter().map(String::as_str)).style(style)
    });
    let mut heading = Style::new().add_modifier(Modifier::UNDERLINED);
    if chosen {
        heading = heading.add_modifier(Modifier::BOLD);
    }
    let headings = Row::new(columns.iter().map(|(heading, _)| *heading)).style(heading);
    let table = Table::new(rows, widths).header(headings).column_spacing(1);
    frame.render_widget(table, area);
}

/// Draws one job with its history.
fn draw_detail(frame: &mut Frame<'_>, area: Rect, view: &mut View) {
    let Some((id, scroll)) = &mut view.detail else { return };
    let detail = view.snapshot.as_ref().and_then(|snapshot| snapshot.detail.as_ref());
    let Some(detail) = detail.filter(|detail| detail.id == Some(*id)) else {
        frame.render_widget(Paragraph::new("asking the manager ..."), area);
        return;
    };
    scroll.page = usize::from(area.height);
    scroll.top = scroll.top.min(detail.lines.len().saturating_sub(scroll.page.max(1)));
    let shown = detail.lines.iter().skip(scroll.top).take(scroll.page);
    let rows =
        shown.map(|line| Row::new(line.cells.iter().map(String::as_str)).style(tone(line.tone)));
    let table = Table::new(rows, [Constraint::Length(14), Constraint::Fill(1)]).column_spacing(1);
    frame.render_widget(table, area);
}

/// Draws the last line: what is typed, what went wrong, what is listed, or the keys.
fn draw_foot(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let text = if let Some(typed) = &view.editing {
        // Shows the end of a long filter, where the user types.
        let width = usize::from(area.width).saturating_sub(2);
        let cut = typed.chars().count().saturating_sub(width);
        let end: String = typed.chars().skip(cut).collect();
        format!("/{end}_")
    } else if !view.notice.is_empty() {
        view.notice.clone()
    } else if view.detail.is_some() {
        "q back  up/down scroll  ? help".to_owned()
    } else {
        let mut parts = Vec::new();
        if let Some(queue) = &view.queue {
            parts.push(format!("queue {queue}"));
        }
        if !view.typed.is_empty() {
            parts.push(format!("filter {}", view.typed));
        }
        if view.snapshot.as_ref().is_some_and(|snapshot| snapshot.more) {
            parts.push(format!("more than {} jobs", view.wanted().jobs));
        }
        parts.push("q quit  / filter  Enter details  a inactive  Tab panes  ? help".to_owned());
        parts.join("   ")
    };
    // A filter and a queue's name come from users.
    let text = super::lines::text(&text);
    let style = if view.notice.is_empty() { Style::new() } else { tone(Tone::Bad) };
    frame.render_widget(Paragraph::new(text).style(style.add_modifier(Modifier::REVERSED)), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP), area);
}

/// The terminal's own colors, which fit its background.
fn tone(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Waiting => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
    }
}
