//! The changes that a callback has asked for on a job. Reads in the same callback see them.
//!
//! Handlers hold `&Job` while they ask for changes, and what they ask for is carried out after the callback.
//! So the changes are noted beside the job's own values, in a list that can grow behind a shared reference.

use std::cell::{Cell, OnceCell};
use std::fmt;

use elsa::FrozenVec;
use serde_json::{Map, Value};

use super::{Flags, Urgency};
use crate::eventlog::Name;
use crate::jobspec::Jobspec;

/// A change that a callback has asked for.
#[doc(hidden)]
#[derive(Debug)]
pub enum Change {
    /// An event was posted.
    Event(Name),
    /// The urgency was set.
    Urgency(Urgency),
    /// A flag was set.
    Flag(Flags),
    /// The annotations after a memo.
    Annotations(Map<String, Value>),
    /// A dependency was added (open), or removed.
    Dependency { description: String, open: bool },
    /// The jobspec after an update.
    Jobspec(Box<Jobspec>),
}

/// A change, with its place among all commands of the callback.
struct Noted {
    place: usize,
    /// Whether the change isn't carried out, because the handler that asked for it has failed.
    undone: Cell<bool>,
    change: Change,
}

/// The changes that a callback has asked for on one job. Most callbacks ask for no change, so the list is
/// made when the first one comes.
#[derive(Default)]
pub struct Overlay(OnceCell<Box<FrozenVec<Box<Noted>>>>);

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.newest_first()).finish()
    }
}

impl Overlay {
    /// Whether nothing was asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    /// Notes a change that was asked for by the command at this place of the callback's commands.
    pub fn note(&self, place: usize, change: Change) {
        let all = self.0.get_or_init(Box::default);
        all.push(Box::new(Noted { place, undone: Cell::new(false), change }));
    }

    /// Hides what the commands from this place on asked for, or only their updates of the jobspec.
    pub fn undo(&self, from: usize, only_updates: bool) {
        for noted in self.0.get().into_iter().flat_map(|all| all.iter()) {
            let is_update = matches!(noted.change, Change::Jobspec(_));
            if noted.place >= from && (is_update || !only_updates) {
                noted.undone.set(true);
            }
        }
    }

    /// The changes, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = &Change> {
        let all = self.0.get();
        let indices = (0..all.map_or(0, |all| all.len())).rev();
        let noted = indices.filter_map(move |index| all?.get(index));
        noted.filter(|noted| !noted.undone.get()).map(|noted| &noted.change)
    }

    /// Returns what `find` returns for the newest change for which it isn't `None`.
    ///
    /// Nearly every read is of a job on which nothing was asked for, and some handlers only read. So the
    /// check is inlined, and the search is a function of its own.
    #[inline]
    fn newest<'a, T>(&'a self, find: impl Fn(&'a Change) -> Option<T>) -> Option<T> {
        #[cold]
        fn search<'a, T>(
            overlay: &'a Overlay,
            find: impl Fn(&'a Change) -> Option<T>,
        ) -> Option<T> {
            overlay.newest_first().find_map(find)
        }
        if self.is_empty() { None } else { search(self, find) }
    }

    /// The newest urgency.
    #[inline]
    pub fn urgency(&self) -> Option<Urgency> {
        self.newest(|change| match change {
            Change::Urgency(urgency) => Some(*urgency),
            _ => None,
        })
    }

    /// All flags that were set.
    pub fn flags(&self) -> Flags {
        self.newest_first().fold(Flags::NONE, |flags, change| match change {
            Change::Flag(flag) => flags | *flag,
            _ => flags,
        })
    }

    /// The newest annotations.
    #[inline]
    pub fn annotations(&self) -> Option<&Map<String, Value>> {
        self.newest(|change| match change {
            Change::Annotations(annotations) => Some(annotations),
            _ => None,
        })
    }

    /// The newest jobspec.
    #[inline]
    pub fn jobspec(&self) -> Option<&Jobspec> {
        self.newest(|change| match change {
            Change::Jobspec(jobspec) => Some(&**jobspec),
            _ => None,
        })
    }

    /// Whether an event of this name was posted.
    pub fn has_event(&self, name: &str) -> bool {
        self.newest_first()
            .any(|change| matches!(change, Change::Event(posted) if *posted == *name))
    }

    /// True if the dependency was added, false if it was removed, whichever came last; `None` if neither.
    pub fn dependency(&self, wanted: &str) -> Option<bool> {
        self.newest_first().find_map(|change| match change {
            Change::Dependency { description, open } if description == wanted => Some(*open),
            _ => None,
        })
    }

    /// The dependencies that were added and not removed, in their order.
    pub fn added_dependencies(&self) -> impl Iterator<Item = &str> {
        let mut added: Vec<&str> = Vec::new();
        for change in self.newest_first() {
            if let Change::Dependency { description, open: true } = change
                && self.dependency(description) == Some(true)
                && !added.contains(&description.as_str())
            {
                added.push(description);
            }
        }
        added.into_iter().rev()
    }
}
