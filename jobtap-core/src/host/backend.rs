//! How descriptors of linked plugins are collected: linkme, or inventory by feature.
//!
//! With both features on, linkme serves. Neither is an error at compile time, since a registry
//! without a backend would be empty without a word.

use super::descriptor::PluginDescriptor;
use crate::sched::SchedulerDescriptor;

#[cfg(feature = "linkme")]
mod imp {
    use super::{PluginDescriptor, SchedulerDescriptor};

    /// The descriptors of all linked plugins, in link order.
    #[doc(hidden)]
    #[linkme::distributed_slice]
    pub static JOBTAP_PLUGINS_V1: [&'static PluginDescriptor];

    pub(crate) fn linked() -> impl Iterator<Item = &'static PluginDescriptor> {
        JOBTAP_PLUGINS_V1.iter().copied()
    }

    /// The linked schedulers.
    #[doc(hidden)]
    #[linkme::distributed_slice]
    pub static JOBTAP_SCHEDULERS_V1: [&'static SchedulerDescriptor];

    pub(crate) fn linked_schedulers() -> impl Iterator<Item = &'static SchedulerDescriptor> {
        JOBTAP_SCHEDULERS_V1.iter().copied()
    }
}

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
mod imp {
    use super::{PluginDescriptor, SchedulerDescriptor};

    /// inventory collects by type, so the descriptors get one of their own.
    #[doc(hidden)]
    pub struct Linked(pub &'static PluginDescriptor);

    inventory::collect!(Linked);

    pub(crate) fn linked() -> impl Iterator<Item = &'static PluginDescriptor> {
        inventory::iter::<Linked>.into_iter().map(|linked| linked.0)
    }

    /// The same for schedulers.
    #[doc(hidden)]
    pub struct LinkedScheduler(pub &'static SchedulerDescriptor);

    inventory::collect!(LinkedScheduler);

    pub(crate) fn linked_schedulers() -> impl Iterator<Item = &'static SchedulerDescriptor> {
        inventory::iter::<LinkedScheduler>.into_iter().map(|linked| linked.0)
    }
}

#[cfg(not(any(feature = "linkme", feature = "inventory")))]
compile_error!("jobtap-core needs a registry: turn on feature `linkme` (default) or `inventory`");

#[cfg(feature = "linkme")]
pub use imp::{JOBTAP_PLUGINS_V1, JOBTAP_SCHEDULERS_V1};
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
pub use imp::{Linked, LinkedScheduler};
#[cfg(any(feature = "linkme", feature = "inventory"))]
pub(super) use imp::{linked, linked_schedulers};
