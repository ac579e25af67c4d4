//! What is on the screen, and what keys do to it. It uses neither a terminal nor a manager, so that tests can press the
//! keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use jobtap_core::job::JobId;

use super::fetch::{Snapshot, Wanted};
use super::filter::Filter;
use super::lines::{Line, Missing};
use crate::rpc::services::job_list::Constraint;
use crate::users::Users;

/// Jobs are requested in multiples of this number, which is larger than a screen, so that most keys need no request.
const BLOCK: usize = 100;

/// The maximum length of a typed filter.
const LONGEST: usize = 256;

/// The parts of the screen, which Tab switches between. A small screen shows one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Jobs,
    Queues,
    Nodes,
    Plugins,
}

const PANES: [Pane; 4] = [Pane::Jobs, Pane::Queues, Pane::Nodes, Pane::Plugins];

/// What the program does after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    /// Write the whole screen again: something else has written to the terminal.
    Repaint,
    /// Stop until the shell continues the program.
    Suspend,
    Quit,
}

/// A list that is longer than its part of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scroll {
    /// The first line that is shown.
    pub(super) top: usize,
    /// The chosen line.
    pub(super) chosen: usize,
    /// The number of lines that the last drawing showed.
    pub(super) page: usize,
}

impl Scroll {
    /// Moves by this many lines in a list of `len` lines.
    fn go(&mut self, lines: isize, len: usize) {
        self.chosen = self.chosen.saturating_add_signed(lines);
        self.fit(len);
    }

    /// Keeps the chosen line inside the list and on the screen.
    pub(super) fn fit(&mut self, len: usize) {
        self.chosen = self.chosen.min(len.saturating_sub(1));
        let page = self.page.max(1);
        if self.chosen < self.top {
            self.top = self.chosen;
        } else if self.chosen >= self.top + page {
            self.top = self.chosen + 1 - page;
        }
        self.top = self.top.min(len.saturating_sub(page));
    }
}

/// The state of the screen.
pub(super) struct View {
    pub(super) pane: Pane,
    pub(super) jobs: Scroll,
    /// The scrolled lines of the other panes, in their order.
    pub(super) others: [Scroll; 3],
    /// The chosen job, which stays chosen when jobs move.
    chosen: Option<JobId>,
    /// The filter in force, as it was typed.
    pub(super) typed: String,
    filter: Filter,
    /// The filter that is being typed.
    pub(super) editing: Option<String>,
    /// The queue that h and l have limited the jobs to.
    pub(super) queue: Option<String>,
    pub(super) inactive: bool,
    /// The job whose details are shown, and how far they are scrolled.
    pub(super) detail: Option<(JobId, Scroll)>,
    pub(super) help: bool,
    /// What the last key could not do.
    pub(super) notice: String,
    pub(super) snapshot: Option<Snapshot>,
    /// The maximum number of listed jobs.
    pub(super) most: usize,
    users: Users,
}

impl View {
    pub(super) fn new(most: usize, queue: Option<String>, users: Users) -> Self {
        Self {
            pane: Pane::Jobs,
            jobs: Scroll::default(),
            others: [Scroll::default(); 3],
            chosen: None,
            typed: String::new(),
            filter: Filter::default(),
            editing: None,
            queue,
            inactive: false,
            detail: None,
            help: false,
            notice: String::new(),
            snapshot: None,
            most,
            users,
        }
    }

    /// What to request from the manager.
    pub(super) fn wanted(&self) -> Wanted {
        let mut filter = self.filter.clone();
        filter.constraints.extend(self.queue.clone().map(|queue| Constraint::Queue(vec![queue])));
        // Words are searched for in all jobs that may be listed.
        let seen = match filter.words.is_empty() {
            true => self.jobs.top + 2 * self.jobs.page.max(1),
            false => self.most,
        };
        let jobs = (seen / BLOCK + 1).saturating_mul(BLOCK).min(self.most);
        let detail = self.detail.as_ref().map(|(id, _)| *id);
        Wanted { jobs, filter, inactive: self.inactive, detail }
    }

    /// Takes a new snapshot. The choice stays on its job if that is still listed.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
        let jobs = self.listed();
        let at = self.chosen.and_then(|id| jobs.iter().position(|job| job.id == id));
        let len = jobs.len();
        if let Some(at) = at {
            // The first job stays chosen at the top of the list, whichever it is.
            if self.jobs.chosen > 0 {
                self.jobs.chosen = at;
            }
        }
        self.jobs.fit(len);
        self.remember();
    }

    /// The listed jobs.
    pub(super) fn listed(&self) -> &[super::lines::JobLine] {
        let snapshot = self.snapshot.as_ref();
        snapshot.and_then(|snapshot| snapshot.jobs.as_deref().ok()).unwrap_or_default()
    }

    fn remember(&mut self) {
        self.chosen = self.listed().get(self.jobs.chosen).map(|job| job.id);
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> After {
        if key.kind == KeyEventKind::Release {
            return After::GoOn;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return After::Quit,
            KeyCode::Char('l') if control => return After::Repaint,
            KeyCode::Char('z') if control => return After::Suspend,
            KeyCode::Char(_) if control => return After::GoOn,
            _ => {}
        }
        self.notice.clear();
        if self.editing.is_some() {
            self.edit(key.code);
            return After::GoOn;
        }
        if self.help {
            self.help = false;
            return After::GoOn;
        }
        if self.detail.is_some() {
            return self.press_in_detail(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return After::Quit,
            // Esc first removes what limits the list.
            KeyCode::Esc if !self.typed.is_empty() || self.queue.is_some() => {
                self.queue = None;
                self.set_filter("");
            }
            KeyCode::Esc => return After::Quit,
            KeyCode::Char('?') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('/') => self.editing = Some(self.typed.clone()),
            KeyCode::Char('a') => self.inactive = !self.inactive,
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(PANES.len() - 1),
            KeyCode::Enter | KeyCode::Char('d') if self.pane == Pane::Jobs => self.open(),
            KeyCode::Left | KeyCode::Char('h') => self.next_queue(false),
            KeyCode::Right | KeyCode::Char('l') => self.next_queue(true),
            code => self.scroll(code),
        }
        After::GoOn
    }

    fn press_in_detail(&mut self, code: KeyCode) -> After {
        match code {
            KeyCode::Char('q' | 'd') | KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.detail = None;
            }
            KeyCode::Char('?') | KeyCode::F(1) => self.help = true,
            code => {
                let detail = self.snapshot.as_ref().and_then(|snapshot| snapshot.detail.as_ref());
                let len = detail.map_or(0, |detail| detail.lines.len());
                if let Some((_, scroll)) = &mut self.detail {
                    // Lines are not chosen here: each key moves the text.
                    scroll.chosen = scroll.top;
                    let top = moved(scroll, code, len);
                    scroll.top = top.min(len.saturating_sub(scroll.page.max(1)));
                }
            }
        }
        After::GoOn
    }

    fn edit(&mut self, code: KeyCode) {
        let Some(text) = &mut self.editing else { return };
        match code {
            KeyCode::Enter => {
                let text = std::mem::take(text);
                self.editing = None;
                self.set_filter(text.trim());
            }
            KeyCode::Esc => self.editing = None,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(c) if text.len() < LONGEST => text.push(c),
            _ => {}
        }
    }

    fn set_filter(&mut self, text: &str) {
        match Filter::parse(text, &self.users) {
            Ok(filter) => {
                self.filter = filter;
                self.typed = text.to_owned();
                self.jobs = Scroll { page: self.jobs.page, ..Scroll::default() };
            }
            Err(refusal) => self.notice = refusal.to_string(),
        }
    }

    fn turn(&mut self, by: usize) {
        let at = PANES.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        self.pane = PANES.get((at + by) % PANES.len()).copied().unwrap_or(Pane::Jobs);
    }

    fn open(&mut self) {
        self.remember();
        match self.chosen {
            Some(id) => self.detail = Some((id, Scroll::default())),
            None => self.notice = "no job is listed".to_owned(),
        }
    }

    /// Limits the jobs to the next queue; after the last one, removes the limit.
    fn next_queue(&mut self, forward: bool) {
        let lines = self.snapshot.as_ref().and_then(|snapshot| snapshot.queues.as_deref().ok());
        let names = lines.unwrap_or_default().iter().filter_map(|line| line.cells.first());
        // The anonymous queue has all jobs. The default queue is marked.
        let names = names.filter(|name| *name != "(all)").map(|name| name.trim_end_matches('*'));
        let mut choices: Vec<Option<String>> = vec![None];
        choices.extend(names.map(|name| Some(name.to_owned())));
        let at = choices.iter().position(|choice| *choice == self.queue).unwrap_or(0);
        let step = if forward { 1 } else { choices.len() - 1 };
        self.queue = choices.get((at + step) % choices.len()).cloned().flatten();
        self.jobs = Scroll { page: self.jobs.page, ..Scroll::default() };
    }

    fn scroll(&mut self, code: KeyCode) {
        let snapshot = self.snapshot.as_ref();
        let len = |lines: Option<&Result<Vec<Line>, Missing>>| {
            lines.and_then(|lines| lines.as_ref().ok()).map_or(0, Vec::len)
        };
        let (index, len) = match self.pane {
            Pane::Jobs => {
                let len = self.listed().len();
                self.jobs.chosen = moved(&self.jobs, code, len);
                self.jobs.go(0, len);
                self.remember();
                return;
            }
            Pane::Queues => (0, len(snapshot.map(|snapshot| &snapshot.queues))),
            Pane::Nodes => (1, len(snapshot.map(|snapshot| &snapshot.nodes))),
            Pane::Plugins => (2, len(snapshot.map(|snapshot| &snapshot.plugins))),
        };
        if let Some(scroll) = self.others.get_mut(index) {
            scroll.chosen = moved(scroll, code, len);
            scroll.fit(len);
        }
    }
}

/// The line that a key chooses in a list of `len` lines.
fn moved(scroll: &Scroll, code: KeyCode, len: usize) -> usize {
    let page = scroll.page.saturating_sub(1).max(1);
    let at = scroll.chosen;
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => at + 1,
        KeyCode::PageUp => at.saturating_sub(page),
        KeyCode::PageDown => at + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => len,
        _ => at,
    };
    to.min(len.saturating_sub(1))
}
