//! What a manager under test is made of, before it starts.

use serde_json::Value;

use super::manager::TestManager;
use crate::host::{PluginDescriptor, Ticks};
use crate::plugin::Plugin;
use crate::resource::{Children, Hostlist, HostlistError, Idset, ResourceSet};
use crate::sched::SchedulerDescriptor;

/// What a manager under test is made of.
#[derive(Debug, Clone)]
pub struct TestManagerBuilder {
    pub(super) plugins: Vec<&'static PluginDescriptor>,
    pub(super) schedulers: Vec<&'static SchedulerDescriptor>,
    pub(super) config: Value,
    pub(super) cores: u32,
    pub(super) hosts: u32,
    pub(super) lifetime: Option<f64>,
    pub(super) resources: Option<ResourceSet>,
    pub(super) ticks: Ticks,
}

impl TestManagerBuilder {
    /// Loads a plugin.
    pub fn plugin<P: Plugin>(self) -> Self {
        self.descriptor(P::DESCRIPTOR)
    }

    /// Loads a plugin by its descriptor, as a registry has it.
    pub fn descriptor(mut self, descriptor: &'static PluginDescriptor) -> Self {
        self.plugins.push(descriptor);
        self
    }

    /// Adds a scheduler to those that the configuration can name.
    pub fn scheduler(mut self, descriptor: &'static SchedulerDescriptor) -> Self {
        self.schedulers.push(descriptor);
        self
    }

    /// The instance's configuration; a plugin's own is under `plugins.NAME`.
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// How many cores its one host has; 4 if not said.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores;
        self
    }

    /// How many hosts it has, `testhost0` and so on, each with [`cores`](Self::cores); if not said, one
    /// that is called `testhost`.
    pub fn hosts(mut self, hosts: u32) -> Self {
        self.hosts = hosts;
        self
    }

    /// Its resources end this many seconds after its first start.
    pub fn lifetime(mut self, seconds: f64) -> Self {
        self.lifetime = Some(seconds);
        self
    }

    /// All its resources, in place of one host.
    pub fn resources(mut self, resources: ResourceSet) -> Self {
        self.resources = Some(resources);
        self
    }

    pub(super) fn all_resources(&self) -> Result<ResourceSet, HostlistError> {
        let cores = Idset::from(0..=self.cores.saturating_sub(1));
        match (&self.resources, self.hosts.checked_sub(1)) {
            (Some(resources), _) => Ok(resources.clone()),
            (None, None) => ResourceSet::single_host("testhost", cores),
            (None, Some(last)) => {
                let hosts: Hostlist = format!("testhost[0-{last}]").parse()?;
                Ok(ResourceSet::uniform(0, &hosts, Children::new(cores, Idset::new())))
            }
        }
    }

    /// The clocks by which handlers are metered; they stand still if not said.
    pub fn ticks(mut self, ticks: Ticks) -> Self {
        self.ticks = ticks;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// What the manager would refuse to start with, such as a plugin's configuration.
    pub fn try_start(self) -> Result<TestManager, String> {
        TestManager::boot_first(self)
    }

    /// Starts it.
    ///
    /// # Panics
    /// Where [`try_start`](Self::try_start) gives an error.
    #[track_caller]
    pub fn start(self) -> TestManager {
        match self.try_start() {
            Ok(manager) => manager,
            Err(error) => panic!("the manager doesn't start: {error}"),
        }
    }
}
