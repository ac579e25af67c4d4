//! Whether resources are allocated to a job, where they come from, and which of them it has released.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::resource::{Idset, ResourceSet};

/// The allocation of one job, from `alloc` to `free`.
#[derive(Debug, Default)]
pub(crate) struct JobAllocation {
    pub(crate) state: AllocState,
    /// The priority with which the job is in its alloc queue, while it waits for resources there.
    pub(crate) queued: Option<NonZeroU32>,
    /// What the job has released before the rest. Boxed, since few jobs do.
    partly: Option<Box<PartlyReleased>>,
}

#[derive(Debug, Default)]
struct PartlyReleased {
    released: Idset,
    /// The job's R without these ranks, once R is known.
    remaining: Option<ResourceSet>,
}

/// Whether a job's R is allocated to it, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AllocState {
    /// It has not been allocated.
    #[default]
    Unallocated,
    /// Its R is allocated to it.
    Allocated(ResourceOrigin),
    /// It has freed its R. Where that came from still matters to plugins that retain some of it.
    Freed(ResourceOrigin),
}

/// Where the resources of a job come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceOrigin {
    /// From the pool, to which they return.
    Pool,
    /// From a plugin, bypassing the scheduler (`alloc-bypass`). The pool does not know about them.
    Plugin,
    /// From the pool of an earlier run. The instance no longer has them, or another job does, so that
    /// they do not return.
    Lost,
}

impl JobAllocation {
    /// Applies `alloc`.
    pub(crate) fn allocate(&mut self, source: ResourceOrigin) {
        self.state = AllocState::Allocated(source);
    }

    /// Applies `free`.
    pub(crate) fn free(&mut self) {
        if let AllocState::Allocated(source) = self.state {
            self.state = AllocState::Freed(source);
        }
    }

    /// Notes that the resources of a restored job are no longer available.
    pub(crate) fn lose(&mut self) {
        if self.is_allocated() {
            self.state = AllocState::Allocated(ResourceOrigin::Lost);
        }
    }

    /// Whether resources are allocated to the job, wherever they come from.
    pub(crate) fn is_allocated(&self) -> bool {
        matches!(self.state, AllocState::Allocated(_))
    }

    /// Whether the job's resources were taken from the pool and have to return there.
    pub(crate) fn is_from_pool(&self) -> bool {
        matches!(
            self.state,
            AllocState::Allocated(ResourceOrigin::Pool) | AllocState::Freed(ResourceOrigin::Pool)
        )
    }

    /// Whether the resources were lost over a restart.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(
            self.state,
            AllocState::Allocated(ResourceOrigin::Lost) | AllocState::Freed(ResourceOrigin::Lost)
        )
    }

    /// The part of `resources`, the job's R, that the job has not released.
    pub(crate) fn unreleased<'a>(
        &'a self,
        resources: Option<&'a ResourceSet>,
    ) -> Option<&'a ResourceSet> {
        self.partly.as_ref().and_then(|partly| partly.remaining.as_ref()).or(resources)
    }

    /// Applies the release of some ranks.
    pub(crate) fn release(&mut self, ranks: &Idset, r: Option<&Arc<ResourceSet>>) {
        let partly = self.partly.get_or_insert_default();
        partly.released = partly.released.union(ranks);
        self.refresh(r);
    }

    /// Follows a change of the job's R.
    pub(crate) fn refresh(&mut self, r: Option<&Arc<ResourceSet>>) {
        if let (Some(resources), Some(partly)) = (r, &mut self.partly) {
            partly.remaining = Some(resources.without_ranks(&partly.released));
        }
    }

    /// Applies `clean`. Nothing is allocated to an inactive job, and its earlier allocation does not matter.
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
    fn ranks_that_were_released_are_left_out() {
        let r = nodes("0-3");
        let mut allocation = JobAllocation::default();
        assert!(!allocation.is_allocated());
        allocation.allocate(ResourceOrigin::Pool);
        allocation.release(&"1".parse().unwrap(), Some(&r));
        allocation.release(&"3".parse().unwrap(), Some(&r));
        assert_eq!(allocation.unreleased(Some(&r)).unwrap().ranks().to_string(), "0,2");
        allocation.free();
        assert!(!allocation.is_allocated() && allocation.is_from_pool());
        allocation.clean();
        assert_eq!(allocation.unreleased(Some(&r)).unwrap().ranks().to_string(), "0-3");
        assert!(!allocation.is_from_pool());
    }

    #[test]
    fn only_what_came_from_the_pool_returns_there() {
        for source in [ResourceOrigin::Pool, ResourceOrigin::Plugin, ResourceOrigin::Lost] {
            let mut allocation = JobAllocation::default();
            allocation.allocate(source);
            assert_eq!(allocation.is_from_pool(), source == ResourceOrigin::Pool);
            allocation.lose();
            assert!(allocation.is_lost() && !allocation.is_from_pool());
            allocation.free();
            assert!(!allocation.is_from_pool());
        }
    }

    #[test]
    fn what_is_not_allocated_cannot_be_lost() {
        let mut allocation = JobAllocation::default();
        allocation.lose();
        assert!(!allocation.is_lost());
    }
}
