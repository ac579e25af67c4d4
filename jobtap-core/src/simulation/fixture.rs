//! Simulates a trace in memory, for tests of policies.

use serde_json::{Value, json};

use super::results::Results;
use super::simulator::{Setup, Simulator};
use super::trace::Trace;
use crate::engine::StartError;
use crate::host::{RegistryBuilder, RegistryError, Ticks};
use crate::plugin::Plugin;
use crate::resource::{Children, Hostlist, Idset, ResourceSet};
use crate::sched::SchedulerDescriptor;
use crate::testing::with_kit_defaults;

/// Why a simulation doesn't start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The plugins or schedulers can't be linked together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The engine or a plugin refuses the configuration.
    #[error(transparent)]
    Engine(#[from] StartError),
}

/// A simulation of a trace in memory, for tests of policies. [The module](super) has an example.
#[derive(Debug, Default)]
#[must_use]
pub struct Simulation {
    registry: RegistryBuilder,
    loaded: Vec<&'static str>,
    config: Option<Value>,
    resources: Option<ResourceSet>,
    /// In seconds.
    queue_wait: f64,
}

impl Simulation {
    /// A manager without plugins, on one host with 4 cores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Links a plugin and loads it at the start, whatever its `load` says.
    pub fn plugin<P: Plugin>(mut self) -> Self {
        self.registry = self.registry.plugin(P::DESCRIPTOR);
        self.loaded.push(P::DESCRIPTOR.name);
        self
    }

    /// Adds a scheduler to those that the configuration can name.
    pub fn scheduler(mut self, descriptor: &'static SchedulerDescriptor) -> Self {
        self.registry = self.registry.schedulers([descriptor]);
        self
    }

    /// Sets the configuration of the instance. The table of a plugin is `plugins.NAME`.
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the resources to one host with this many cores.
    pub fn cores(self, cores: u32) -> Self {
        self.nodes(1, cores)
    }

    /// Sets the resources to this many hosts, each with this many cores.
    ///
    /// # Panics
    /// If there are no nodes or no cores.
    #[track_caller]
    pub fn nodes(self, nodes: u32, cores: u32) -> Self {
        match machine(nodes, cores, 0) {
            Some(resources) => self.resources(resources),
            None => panic!("Simulation::nodes({nodes}, {cores}): a machine has nodes and cores"),
        }
    }

    /// Lets each allocation that an elastic instance asks for wait this many seconds; 0 by default.
    pub fn queue_wait(mut self, seconds: f64) -> Self {
        self.queue_wait = seconds;
        self
    }

    /// Sets all resources.
    pub fn resources(mut self, resources: ResourceSet) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Replays a trace.
    ///
    /// # Errors
    /// The reason why the manager can't start, such as an invalid configuration of a plugin.
    pub fn run(self, trace: &Trace) -> Result<Results, SimulationError> {
        let registry = self.registry.build()?;
        let config = self.config.unwrap_or_else(|| json!({}));
        let loaded = registry.plugins().filter(|plugin| self.loaded.contains(&plugin.name));
        let config = with_kit_defaults(&config, loaded);
        let resources = self.resources.or_else(|| machine(1, 4, 0)).unwrap_or_default();
        let mut simulator = Simulator::new(Setup {
            config,
            config_directory: None,
            registry,
            resources,
            ticks: Ticks::default(),
            start: trace.header.start,
            places: usize::MAX,
            queue_wait: Box::new(move || self.queue_wait),
        })?;
        for job in &trace.jobs {
            simulator.submit(job);
        }
        simulator.finish();
        Ok(simulator.into_results())
    }
}

/// A machine of equal hosts `node0`, `node1` and so on; `None` without nodes or cores.
pub fn machine(nodes: u32, cores: u32, gpus: u32) -> Option<ResourceSet> {
    let (last, cores) = (nodes.checked_sub(1)?, Idset::from(0..=cores.checked_sub(1)?));
    let gpus = gpus.checked_sub(1).map_or_else(Idset::new, |last| Idset::from(0..=last));
    let hosts: Hostlist = format!("node[0-{last}]").parse().ok()?;
    Some(ResourceSet::uniform(0, &hosts, Children::new(cores, gpus)))
}
