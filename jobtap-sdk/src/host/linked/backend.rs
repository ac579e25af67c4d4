//! Collects the descriptors of linked plugins, by linkme or by inventory.
//!
//! With both features on, linkme is used. With neither, compiling fails, since the registry would
//! silently be empty.

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

    /// The descriptors of all linked schedulers, in link order.
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

    /// The element type for plugins: inventory collects by type.
    #[doc(hidden)]
    pub struct Linked(pub &'static PluginDescriptor);

    inventory::collect!(Linked);

    pub(crate) fn linked() -> impl Iterator<Item = &'static PluginDescriptor> {
        inventory::iter::<Linked>.into_iter().map(|linked| linked.0)
    }

    /// The element type for schedulers.
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
pub(in crate::host) use imp::{linked, linked_schedulers};
