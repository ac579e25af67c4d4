//! The open prologs and epilogs of a job, and which plugin will finish each.

use thin_vec::ThinVec;

use crate::eventlog::Event;
use crate::host::PluginKey;
use crate::plugin::Perilog;

/// The prologs and epilogs of a job that are started and not finished.
///
/// An open prolog delays the start of the job's tasks, an open epilog the release of its resources. The
/// descriptions follow from the eventlog; the owners are only known in memory, so that after a restart a
/// perilog is an *orphan* until its plugin takes it over.
///
/// Several of them may have equal descriptions. Then only their number counts: if three are open and one is claimed,
/// two are orphans.
///
/// Boxed, since a pending job has none.
#[derive(Debug, Default)]
pub(crate) struct Perilogs(Option<Box<Lists>>);

/// The prologs and epilogs, and what is known about them.
#[derive(Debug, Default)]
struct Lists {
    prologs: ThinVec<Box<str>>,
    epilogs: ThinVec<Box<str>>,
    /// The plugin that will finish each; listed as soon as the perilog's start is posted.
    owners: ThinVec<Owned>,
    /// Those whose finish event is posted and not applied yet. They are open, but no plugin may take them over, since
    /// it would finish them a second time.
    closing: ThinVec<(Perilog, Box<str>)>,
}

/// A prolog or epilog with the plugin that will finish it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) plugin: PluginKey,
    pub(crate) kind: Perilog,
    pub(crate) description: Box<str>,
}

impl Perilogs {
    /// The descriptions of the open ones, in the order in which they were started.
    pub(crate) fn open(&self, kind: Perilog) -> &[Box<str>] {
        let Some(lists) = &self.0 else { return &[] };
        match kind {
            Perilog::Prolog => &lists.prologs,
            Perilog::Epilog => &lists.epilogs,
        }
    }

    fn lists_mut(&mut self) -> &mut Lists {
        self.0.get_or_insert_default()
    }

    /// Whether any of this kind is open.
    pub(crate) fn is_open(&self, kind: Perilog) -> bool {
        !self.open(kind).is_empty()
    }

    fn open_mut(&mut self, kind: Perilog) -> &mut ThinVec<Box<str>> {
        let lists = self.lists_mut();
        match kind {
            Perilog::Prolog => &mut lists.prologs,
            Perilog::Epilog => &mut lists.epilogs,
        }
    }

    /// Applies a start event.
    pub(crate) fn start(&mut self, kind: Perilog, description: &str) {
        self.open_mut(kind).push(description.into());
    }

    /// Notes that a finish event is posted.
    pub(crate) fn close(&mut self, kind: Perilog, description: &str) {
        self.lists_mut().closing.push((kind, description.into()));
    }

    /// Applies a finish event. It closes one of several with equal descriptions.
    pub(crate) fn finish(&mut self, kind: Perilog, description: &str) {
        let posted = |(of, what): &(Perilog, Box<str>)| *of == kind && **what == *description;
        let Some(lists) = &mut self.0 else { return };
        if let Some(index) = lists.closing.iter().position(posted) {
            lists.closing.remove(index);
        }
        let open = self.open_mut(kind);
        if let Some(index) = open.iter().position(|known| **known == *description) {
            open.remove(index);
        }
        self.drop_if_empty();
    }

    /// Gives back the memory of empty lists.
    fn drop_if_empty(&mut self) {
        let empty = self.0.as_ref().is_some_and(|lists| {
            let Lists { prologs, epilogs, owners, closing } = &**lists;
            prologs.is_empty() && epilogs.is_empty() && owners.is_empty() && closing.is_empty()
        });
        if empty {
            self.0 = None;
        }
    }

    /// Whether there is an open perilog of this description that nothing will finish.
    pub(crate) fn is_orphan(&self, kind: Perilog, description: &str) -> bool {
        let open = self.open(kind).iter().filter(|known| ***known == *description).count();
        open > self.claims(kind, description)
    }

    /// The perilogs that nothing will finish.
    pub(crate) fn orphans(&self) -> Vec<(Perilog, Box<str>)> {
        let mut orphans = Vec::new();
        for kind in [Perilog::Prolog, Perilog::Epilog] {
            let open = self.open(kind);
            for (index, description) in open.iter().enumerate() {
                let before = open.iter().take(index).filter(|known| *known == description).count();
                if before >= self.claims(kind, description) {
                    orphans.push((kind, description.clone()));
                }
            }
        }
        orphans
    }

    /// The number of perilogs of this description that have an owner or are about to be finished.
    fn claims(&self, kind: Perilog, description: &str) -> usize {
        let owned = |owned: &&Owned| owned.kind == kind && *owned.description == *description;
        let posted = |(of, what): &&(Perilog, Box<str>)| *of == kind && **what == *description;
        self.0.as_ref().map_or(0, |lists| {
            lists.owners.iter().filter(owned).count() + lists.closing.iter().filter(posted).count()
        })
    }

    /// The plugin that will finish a perilog.
    pub(crate) fn owner(&self, kind: Perilog, description: &str) -> Option<PluginKey> {
        let owned = |owned: &&Owned| owned.kind == kind && *owned.description == *description;
        self.0.as_ref()?.owners.iter().find(owned).map(|owned| owned.plugin)
    }

    /// Makes a plugin the owner of a perilog, which it will finish.
    pub(crate) fn own(&mut self, plugin: PluginKey, kind: Perilog, description: &str) {
        self.lists_mut().owners.push(Owned { plugin, kind, description: description.into() });
    }

    /// Ends the ownership of a perilog; returns whether the plugin owned it.
    pub(crate) fn disown(&mut self, plugin: PluginKey, kind: Perilog, description: &str) -> bool {
        let Some(lists) = &mut self.0 else { return false };
        let index = lists.owners.iter().position(|owned| {
            owned.plugin == plugin && owned.kind == kind && *owned.description == *description
        });
        let owned = index.map(|index| lists.owners.remove(index)).is_some();
        self.drop_if_empty();
        owned
    }

    /// Ends the ownership of all perilogs of these plugins, and returns them.
    pub(crate) fn disown_all(&mut self, plugins: &[PluginKey]) -> Vec<Owned> {
        let Some(lists) = &mut self.0 else { return Vec::new() };
        let owned = lists.owners.extract_if(.., |owned| plugins.contains(&owned.plugin)).collect();
        self.drop_if_empty();
        owned
    }
}

/// The events that start and finish a perilog.
pub(crate) trait PerilogEvents {
    fn start_event(self, description: &str) -> Event<'_>;
    fn finish_event(self, description: &str, status: i32) -> Event<'_>;
}

impl PerilogEvents for Perilog {
    fn start_event(self, description: &str) -> Event<'_> {
        match self {
            Perilog::Prolog => Event::PrologStart { description },
            Perilog::Epilog => Event::EpilogStart { description },
        }
    }

    fn finish_event(self, description: &str, status: i32) -> Event<'_> {
        match self {
            Perilog::Prolog => Event::PrologFinish { description, status },
            Perilog::Epilog => Event::EpilogFinish { description, status },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perilog_without_an_owner_is_an_orphan() {
        let plugin = PluginKey(1);
        let mut perilogs = Perilogs::default();
        perilogs.start(Perilog::Prolog, "scratch");
        assert_eq!(perilogs.orphans(), [(Perilog::Prolog, "scratch".into())]);
        perilogs.own(plugin, Perilog::Prolog, "scratch");
        assert!(perilogs.orphans().is_empty());
        assert!(!perilogs.disown(plugin, Perilog::Epilog, "scratch"));
        assert!(perilogs.disown(plugin, Perilog::Prolog, "scratch"));
        assert!(perilogs.is_orphan(Perilog::Prolog, "scratch"));
        perilogs.finish(Perilog::Prolog, "scratch");
        assert!(!perilogs.is_open(Perilog::Prolog));
    }

    #[test]
    fn of_perilogs_with_one_description_each_is_claimed_once() {
        let mut perilogs = Perilogs::default();
        perilogs.start(Perilog::Prolog, "scratch");
        perilogs.start(Perilog::Prolog, "scratch");
        perilogs.own(PluginKey(1), Perilog::Prolog, "scratch");
        assert_eq!(perilogs.orphans(), [(Perilog::Prolog, "scratch".into())]);
        perilogs.close(Perilog::Prolog, "scratch");
        assert!(perilogs.orphans().is_empty());
        perilogs.finish(Perilog::Prolog, "scratch");
        assert!(perilogs.is_open(Perilog::Prolog));
        assert!(!perilogs.is_orphan(Perilog::Prolog, "scratch"));
    }
}
