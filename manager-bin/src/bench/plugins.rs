//! Plugins of the benchmark. They are not registered, so that no manager lists or loads them.

use jobtap_core::host::{Load, PluginDescriptor, Registry};
use jobtap_core::plugin::Plugin as _;
use jobtap_core::prelude::*;

use super::error::BenchError;

/// The crate, as `#[jobtap_plugin]` sees it here: with a registration that does nothing.
mod unregistered {
    pub(super) use jobtap_core::*;

    macro_rules! register_nothing {
        ($descriptor:expr) => {};
    }
    pub(super) use register_nothing as __jobtap_register;
}

/// The number of plugins in the larger stack.
pub(super) const STACK: usize = 32;

/// Reads the job and returns a priority, as most policies do. Its service asks for the priorities of all jobs
/// again.
#[derive(Default)]
struct ByUrgency {
    rounds: u64,
}

#[jobtap_plugin(name = "bench-urgency", crate = unregistered)]
impl ByUrgency {
    #[on("job.state.priority")]
    fn first(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }

    /// Returns the same priority as before, or another one for each job if the service has asked for that.
    #[on("job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        let urgency = u32::from(job.urgency().value());
        match self.rounds {
            0 => Priority::new(urgency),
            // Mixed, so that the order of the queue changes, too.
            round => Priority::new(mixed(job.id().as_u64() ^ round)),
        }
    }

    #[service("ask")]
    fn ask(&mut self, change: Request<bool>, cx: Cx<'_, Service>) {
        self.rounds = if *change { self.rounds + 1 } else { self.rounds };
        cx.reprioritize_all();
    }
}

/// The topic of the service.
pub(super) const ASK: &str = "job-manager.bench-urgency.ask";

/// A pseudo-random number for this number, between the extreme priorities.
pub(super) fn mixed(number: u64) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    u32::try_from(mixed).unwrap_or(1).clamp(1, u32::MAX - 1)
}

/// Returns a registry with only the plugin that sets priorities. Without it, jobs would wait forever.
pub(super) fn priorities_only() -> Result<Registry, BenchError> {
    Ok(Registry::builder().plugin(ByUrgency::DESCRIPTOR).build()?)
}

/// Returns a registry with the linked plugins, and the one whose service asks for all priorities.
pub(super) fn linked_and_priorities() -> Result<Registry, BenchError> {
    let linked: Vec<_> = Registry::linked()?.plugins().collect();
    Ok(Registry::builder().plugins(linked).plugin(ByUrgency::DESCRIPTOR).build()?)
}

fn name(number: usize) -> String {
    format!("bench-{number}")
}

/// The name of the first plugin of [`stack_of`].
pub(super) fn first() -> String {
    name(1)
}

/// Returns a registry with the plugin this many times.
pub(super) fn stack_of(plugins: usize) -> Result<Registry, BenchError> {
    let of = ByUrgency::DESCRIPTOR;
    let descriptors = (1..=plugins).map(|number| -> &'static PluginDescriptor {
        // Leaked, since a registry keeps its plugins for the life of the process.
        Box::leak(Box::new(PluginDescriptor {
            name: Box::leak(name(number).into_boxed_str()),
            load: Load::Auto,
            handlers: of.handlers,
            crate_name: of.crate_name,
            crate_version: of.crate_version,
            authors: of.authors,
            license: of.license,
            sdk: of.sdk,
            before: of.before,
            after: of.after,
            load_order: of.load_order,
            schema: of.schema,
            reads: of.reads,
            new: of.new,
        }))
    });
    Ok(Registry::builder().plugins(descriptors).build()?)
}
