//! What a job holds of the instance's resources.

use std::sync::Arc;

use crate::resource::{Idset, ResourceSet};

/// The resources that a job holds, from `alloc` to `free`.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    pub(crate) state: HoldState,
    /// Ranks that the job has released before the rest.
    released: Idset,
    /// What it still holds of its R since then.
    remaining: Option<Box<ResourceSet>>,
}

/// Whether a job holds its R, and whose those resources are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HoldState {
    /// It has not been allocated.
    #[default]
    Unallocated,
    /// It holds its R.
    Held(Source),
    /// It has freed its R. Where that came from still matters to plugins that retain some of it.
    Freed(Source),
}

/// Where a job's resources come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// From the pool, to which they return.
    Pool,
    /// From a plugin, past the scheduler (`alloc-bypass`). The pool does not know of them.
    Plugin,
    /// From the pool of an earlier run. The instance no longer has them, or another job does, so that
    /// they do not return.
    Lost,
}

impl Holding {
    /// Applies `alloc`.
    pub(crate) fn allocate(&mut self, source: Source) {
        self.state = HoldState::Held(source);
    }

    /// Applies `free`.
    pub(crate) fn free(&mut self) {
        if let HoldState::Held(source) = self.state {
            self.state = HoldState::Freed(source);
        }
    }

    /// Notes that the resources of a restored job are not there any more.
    pub(crate) fn lose(&mut self) {
        if self.is_held() {
            self.state = HoldState::Held(Source::Lost);
        }
    }

    /// Whether the job holds resources, wherever they come from.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state, HoldState::Held(_))
    }

    /// Whether the job's resources were taken from the pool and have to return there.
    pub(crate) fn is_from_pool(&self) -> bool {
        matches!(self.state, HoldState::Held(Source::Pool) | HoldState::Freed(Source::Pool))
    }

    /// Whether the resources were lost over a restart.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.state, HoldState::Held(Source::Lost) | HoldState::Freed(Source::Lost))
    }

    /// What is held of `resources`, the job's R.
    pub(crate) fn of<'a>(&'a self, resources: Option<&'a ResourceSet>) -> Option<&'a ResourceSet> {
        self.remaining.as_deref().or(resources)
    }

    /// Applies the release of some ranks.
    pub(crate) fn release(&mut self, ranks: &Idset, r: Option<&Arc<ResourceSet>>) {
        self.released = self.released.union(ranks);
        self.refresh(r);
    }

    /// Follows a change of the job's R.
    pub(crate) fn refresh(&mut self, r: Option<&Arc<ResourceSet>>) {
        if let Some(resources) = r.filter(|_| !self.released.is_empty()) {
            self.remaining = Some(resources.without_ranks(&self.released).into());
        }
    }

    /// Applies `clean`. An inactive job holds nothing, and what it held before does not matter.
    pub(crate) fn clean(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ResourceSet;

    fn nodes(ranks: &str) -> Arc<ResourceSet> {
        let text = format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{"core":"0-3"}}}}],
                "nodelist":["n[0-3]"],"starttime":0,"expiration":0}}}}"#
        );
        Arc::new(text.parse().unwrap())
    }

    #[test]
    fn a_job_holds_what_it_has_not_released() {
        let r = nodes("0-3");
        let mut holding = Holding::default();
        assert!(!holding.is_held());
        holding.allocate(Source::Pool);
        holding.release(&"1".parse().unwrap(), Some(&r));
        holding.release(&"3".parse().unwrap(), Some(&r));
        assert_eq!(holding.of(Some(&r)).unwrap().ranks().to_string(), "0,2");
        holding.free();
        assert!(!holding.is_held() && holding.is_from_pool());
        holding.clean();
        assert_eq!(holding.of(Some(&r)).unwrap().ranks().to_string(), "0-3");
        assert!(!holding.is_from_pool());
    }

    #[test]
    fn only_what_came_from_the_pool_returns_there() {
        for source in [Source::Pool, Source::Plugin, Source::Lost] {
            let mut holding = Holding::default();
            holding.allocate(source);
            assert_eq!(holding.is_from_pool(), source == Source::Pool);
            holding.lose();
            assert!(holding.is_lost() && !holding.is_from_pool());
            holding.free();
            assert!(!holding.is_from_pool());
        }
    }

    #[test]
    fn what_is_not_held_cannot_be_lost() {
        let mut holding = Holding::default();
        holding.lose();
        assert!(!holding.is_lost());
    }
}
