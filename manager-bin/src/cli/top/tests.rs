//! The screen at several sizes, and the keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jobtap_core::job::JobId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use serde_json::json;

use super::draw::draw;
use super::fetch::Snapshot;
use super::lines::{Detail, JobLine, Line, Missing, Tone};
use super::view::{After, Pane, View};
use crate::rpc::services::job_list::{Constraint, Stats};
use crate::users::Users;

fn line(cells: &[&str]) -> Line {
    Line { cells: cells.iter().map(|cell| (*cell).to_owned()).collect(), tone: Tone::Plain }
}

fn job(id: u64) -> JobLine {
    let name = format!("job-{id}");
    let cells = [&format!("f{id}"), "a", "alice", "R", "4", "1", "12.5s", &name, "n0"];
    JobLine { id: JobId::new(id), line: line(&cells) }
}

fn snapshot(jobs: impl Iterator<Item = u64>) -> Snapshot {
    let stats = json!({"job_states": {"run": 3, "sched": 99_997, "inactive": 7, "total": 100_007},
                       "successful": 5, "failed": 2});
    let stats: Stats = serde_json::from_value(stats).unwrap();
    Snapshot {
        at: 1000.0,
        uptime: Some(5400.0),
        owner: "root".to_owned(),
        stats: Ok(stats),
        nodes: Ok(vec![line(&["free", "3", "n[1-3]", ""])]),
        queues: Ok(vec![
            line(&["a*", "enabled", "started", "99997", "3", "1/4", "12/16"]),
            line(&["b", "enabled", "stopped", "0", "0", "0/4", "0/16"]),
        ]),
        plugins: Ok(vec![line(&[".perilog", "live", "12", "0", "0", "512ns", "2us"])]),
        jobs: Ok(jobs.map(job).collect()),
        more: true,
        detail: None,
    }
}

fn view() -> View {
    let mut view = View::new(1000, None, Users::from_passwd("alice:x:7:7::/:/bin/sh"));
    view.take(snapshot(1..=60));
    view
}

/// The screen as lines of text.
fn screen(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, 1001.0)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

/// The line that is shown as chosen.
fn chosen(view: &mut View) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, view, 1001.0)).unwrap();
    let buffer = terminal.backend().buffer();
    let marked = |y| buffer[(0u16, y)].modifier.contains(Modifier::REVERSED);
    let Some(y) = (0..23).find(|y| marked(*y)) else { return String::new() };
    (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>()
}

fn press(view: &mut View, code: KeyCode) -> After {
    view.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn control(view: &mut View, key: char) -> After {
    view.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL))
}

fn write(view: &mut View, text: &str) {
    for c in text.chars() {
        press(view, KeyCode::Char(c));
    }
}

#[test]
fn a_screen_of_usual_size_shows_everything() {
    let shown = screen(&mut view(), 80, 24);
    let text = shown.join("\n");
    for wanted in [
        "jobtap top   up 1.5h   owner root",
        "3 running  0 cleanup  99997 pending (0 depend, 0 priority, 99997 sched)",
        "7 inactive: 5 completed  2 failed  0 canceled  0 timeout",
        "enabled  started 99997   3      1/4       12/16",
        "free         3      n[1-3]",
        ".perilog",
        "f1           a        alice    R  4      1     12.5s    job-1            n0",
        "more than 100 jobs",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn a_wide_screen_has_the_plugins_at_the_side() {
    let shown = screen(&mut view(), 170, 40);
    assert!(shown[3].starts_with("QUEUE") && shown[3].contains("PLUGIN"), "{shown:?}");
}

#[test]
fn a_small_screen_shows_the_chosen_pane() {
    let mut view = view();
    let shown = screen(&mut view, 60, 8).join("\n");
    assert!(shown.contains("JOBID") && !shown.contains("PLUGIN"), "{shown}");
    press(&mut view, KeyCode::BackTab);
    let shown = screen(&mut view, 60, 8).join("\n");
    assert!(shown.contains("PLUGIN") && !shown.contains("JOBID"), "{shown}");
}

#[test]
fn no_size_is_too_small() {
    let mut open = view();
    press(&mut open, KeyCode::Enter);
    let mut helped = view();
    press(&mut helped, KeyCode::Char('?'));
    let mut typing = view();
    write(&mut typing, "/gr\u{f6}\u{df}er");
    let mut empty = View::new(10, None, Users::from_passwd(""));
    for view in [&mut view(), &mut open, &mut helped, &mut typing, &mut empty] {
        for width in [0, 1, 2, 3, 5, 9, 30, 79, 80, 159, 160] {
            for height in [0, 1, 2, 3, 4, 5, 9, 10, 21, 22, 40] {
                screen(view, width, height);
                press(view, KeyCode::PageDown);
            }
        }
    }
}

#[test]
fn arrows_and_pages_move_through_the_jobs() {
    let mut view = view();
    assert!(chosen(&mut view).starts_with("f1 "));
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Char('j'));
    press(&mut view, KeyCode::Up);
    assert!(chosen(&mut view).starts_with("f2 "));
    let page = view.jobs.page;
    assert!(page > 3, "{page}");
    press(&mut view, KeyCode::PageDown);
    assert!(chosen(&mut view).starts_with(&format!("f{} ", 1 + page)));
    press(&mut view, KeyCode::PageUp);
    assert!(chosen(&mut view).starts_with("f2 "));
    press(&mut view, KeyCode::End);
    assert!(chosen(&mut view).starts_with("f60 "));
    press(&mut view, KeyCode::Down);
    assert!(chosen(&mut view).starts_with("f60 "));
    press(&mut view, KeyCode::Home);
    assert!(chosen(&mut view).starts_with("f1 "));
}

#[test]
fn only_what_can_be_seen_soon_is_asked_for() {
    let mut view = View::new(1000, None, Users::from_passwd(""));
    view.take(snapshot(1..=900));
    screen(&mut view, 80, 24);
    assert_eq!(view.wanted().jobs, 100);
    press(&mut view, KeyCode::End);
    screen(&mut view, 80, 24);
    assert_eq!(view.wanted().jobs, 1000);
    // Never more than the limit of the command line.
    view.most = 50;
    assert_eq!(view.wanted().jobs, 50);
}

#[test]
fn the_choice_stays_on_its_job() {
    let mut view = view();
    screen(&mut view, 80, 24);
    for _ in 0..4 {
        press(&mut view, KeyCode::Down);
    }
    view.take(snapshot(3..=60));
    assert!(chosen(&mut view).starts_with("f5 "));
    // If the job is gone, the choice stays on the line.
    view.take(snapshot(10..=60));
    assert!(chosen(&mut view).starts_with("f12 "));
    view.take(snapshot(1..=1));
    assert!(chosen(&mut view).starts_with("f1 "));
    // The choice of the first line stays on the first line, whichever job it is.
    view.take(snapshot(0..=5));
    assert!(chosen(&mut view).starts_with("f0 "));
}

#[test]
fn a_filter_is_typed_corrected_and_taken_back() {
    let mut view = view();
    write(&mut view, "/user=alicf");
    assert!(screen(&mut view, 80, 24)[23].starts_with("/user=alicf_"));
    press(&mut view, KeyCode::Backspace);
    write(&mut view, "e Relax");
    // Until Enter nothing changes; q is a letter here.
    assert_eq!(view.wanted().filter.constraints, []);
    write(&mut view, "q");
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    let wanted = view.wanted();
    assert_eq!(wanted.filter.constraints, [Constraint::Userid(vec![7])]);
    assert_eq!((wanted.filter.words, wanted.jobs), (vec!["relax".to_owned()], 1000));
    assert!(screen(&mut view, 80, 24)[23].starts_with("filter user=alice Relax"));
    write(&mut view, "/=x");
    press(&mut view, KeyCode::Enter);
    assert!(screen(&mut view, 80, 24)[23].starts_with("Relax= is not known"), "{}", view.notice);
    assert_eq!(press(&mut view, KeyCode::Esc), After::GoOn);
    assert_eq!(view.wanted().filter.constraints, []);
    assert_eq!(press(&mut view, KeyCode::Esc), After::Quit);
}

#[test]
fn left_and_right_limit_the_jobs_to_a_queue() {
    let mut view = view();
    let mut queue = |code| {
        press(&mut view, code);
        view.queue.clone().unwrap_or_default()
    };
    assert_eq!(queue(KeyCode::Right), "a");
    assert_eq!(queue(KeyCode::Char('l')), "b");
    assert_eq!(queue(KeyCode::Right), "");
    assert_eq!(queue(KeyCode::Left), "b");
    let wanted = Constraint::Queue(vec!["b".to_owned()]);
    assert_eq!(view.wanted().filter.constraints, [wanted]);
}

#[test]
fn a_job_is_opened_scrolled_and_closed() {
    let mut view = view();
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.wanted().detail, Some(JobId::new(2)));
    assert!(screen(&mut view, 80, 24).join("\n").contains("asking the manager"));
    let lines = (0..100).map(|at| line(&[&format!("+{at}s"), "memo"])).collect();
    let mut answer = snapshot(1..=60);
    answer.detail = Some(Detail { id: Some(JobId::new(2)), lines });
    view.take(answer);
    assert!(screen(&mut view, 80, 24)[3].starts_with("+0s"));
    press(&mut view, KeyCode::Down);
    assert!(screen(&mut view, 80, 24)[3].starts_with("+1s"));
    press(&mut view, KeyCode::End);
    assert!(screen(&mut view, 80, 24)[22].starts_with("+99s"));
    assert_eq!(press(&mut view, KeyCode::Char('q')), After::GoOn);
    assert_eq!(view.wanted().detail, None);
    assert!(chosen(&mut view).starts_with("f2 "));
}

#[test]
fn what_is_not_shown_to_a_guest_says_so() {
    let mut answer = snapshot(1..=2);
    answer.stats = Err(Missing::OwnerOnly);
    answer.plugins = Err(Missing::OwnerOnly);
    let mut view = view();
    view.take(answer);
    let text = screen(&mut view, 80, 24).join("\n");
    assert!(text.contains("numbers of jobs: only shown to the owner"), "{text}");
    assert!(text.contains("PLUGIN: only shown to the owner") && text.contains("f2 "), "{text}");
}

#[test]
fn old_answers_say_how_old_they_are() {
    let mut view = view();
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &mut view, 1030.5)).unwrap();
    let text = terminal.backend().to_string();
    assert!(text.contains("NO ANSWER FOR 30s"), "{text}");
}

#[test]
fn keys_end_repaint_and_change_panes() {
    let mut view = view();
    assert_eq!(control(&mut view, 'c'), After::Quit);
    assert_eq!(control(&mut view, 'l'), After::Repaint);
    assert_eq!(control(&mut view, 'z'), After::Suspend);
    assert_eq!(control(&mut view, 'q'), After::GoOn);
    write(&mut view, "/");
    assert_eq!(control(&mut view, 'c'), After::Quit);
    press(&mut view, KeyCode::Esc);
    press(&mut view, KeyCode::Char('?'));
    assert!(screen(&mut view, 80, 24).join("\n").contains("user=alice,bob"));
    assert_eq!(press(&mut view, KeyCode::Char('q')), After::GoOn);
    assert_eq!(press(&mut view, KeyCode::Char('q')), After::Quit);
    let mut panes = Vec::new();
    for _ in 0..4 {
        press(&mut view, KeyCode::Tab);
        panes.push(view.pane);
    }
    assert_eq!(panes, [Pane::Queues, Pane::Nodes, Pane::Plugins, Pane::Jobs]);
    press(&mut view, KeyCode::Char('a'));
    assert!(view.wanted().inactive);
}
