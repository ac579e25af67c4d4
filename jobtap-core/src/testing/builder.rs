//! The setup of a manager under test.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::config;
use super::manager::TestManager;
use super::refused::ManagerStartError;
use crate::host::{PluginDescriptor, Ticks};
use crate::plugin::Plugin;
use crate::resource::{Children, Hostlist, HostlistError, Idset, ResourceSet};
use crate::sched::SchedulerDescriptor;

/// Sets up a [`TestManager`]: its plugins, configuration and resources.
#[derive(Debug, Clone)]
pub struct TestManagerBuilder {
    pub(super) plugins: Vec<&'static PluginDescriptor>,
    /// The names of the plugins to be loaded, whatever their `load` says.
    pub(super) loaded: Vec<&'static str>,
    pub(super) schedulers: Vec<&'static SchedulerDescriptor>,
    pub(super) config: Value,
    pub(super) config_directory: Option<PathBuf>,
    pub(super) cores: u32,
    pub(super) hosts: u32,
    pub(super) lifetime: Option<f64>,
    pub(super) prefill: bool,
    pub(super) resources: Option<ResourceSet>,
    pub(super) ticks: Ticks,
    /// The users that the system knows.
    pub(super) users: BTreeMap<u32, (String, u32)>,
    pub(super) groups: BTreeMap<u32, Vec<String>>,
}

impl TestManagerBuilder {
    /// Links a plugin and loads it at the start, even one with `load = "by-name"` or `load = "configured"`. A
    /// plugin that the configuration loads or removes by its name follows the configuration instead.
    pub fn plugin<P: Plugin>(mut self) -> Self {
        self.loaded.push(P::DESCRIPTOR.name);
        self.linked::<P>()
    }

    /// Links a plugin, which is loaded as its `load` says: at the start, by the configuration or by
    /// [`load_plugin`](TestManager::load_plugin).
    pub fn linked<P: Plugin>(self) -> Self {
        self.descriptor(P::DESCRIPTOR)
    }

    /// Links a plugin by its descriptor, as [`linked`](Self::linked) does.
    pub fn descriptor(mut self, descriptor: &'static PluginDescriptor) -> Self {
        self.plugins.push(descriptor);
        self
    }

    /// Adds a scheduler to those that the configuration can name.
    pub fn scheduler(mut self, descriptor: &'static SchedulerDescriptor) -> Self {
        self.schedulers.push(descriptor);
        self
    }

    /// Sets the configuration of the instance. The table of a plugin is `plugins.NAME`. Unlike in a real
    /// manager, `exec.testexec.allow-guests` is true by default: every user's job can be simulated.
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// Sets the directory of the configuration, to which names of files in it are relative.
    pub fn config_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config_directory = Some(directory.into());
        self
    }

    /// Sets the number of cores of each host; 4 by default.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = cores;
        self
    }

    /// Sets the number of hosts, which are called `testhost0` and so on and each have
    /// [`cores`](Self::cores). By default there is one host, `testhost`.
    pub fn hosts(mut self, hosts: u32) -> Self {
        self.hosts = hosts;
        self
    }

    /// Adds a user to those that the system knows, with a name and a primary group. By default it knows none.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// #[derive(Default)]
    /// struct Greeter;
    ///
    /// #[jobtap_plugin(name = "greeter")]
    /// impl Greeter {
    ///     #[on("slurm.job_submit")]
    ///     fn submit(&self, desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) {
    ///         let name = desc.user_name.as_deref().unwrap_or("unknown user");
    ///         cx.user_message(format!("hello {name} of group {}", desc.group_id));
    ///     }
    /// }
    ///
    /// let mut m = TestManager::new().plugin::<Greeter>().known_user(1001, "ada", 100).start();
    /// m.submit(TestJob::new().user(1001)).unwrap();
    /// assert_eq!(m.messages(), ["hello ada of group 100"]);
    /// ```
    pub fn known_user(mut self, user: u32, name: &str, group: u32) -> Self {
        self.users.insert(user, (name.to_owned(), group));
        self
    }

    /// Sets the groups of a user, for queues that are for some groups only.
    ///
    /// ```
    /// # use jobtap_core::testing::{TestJob, TestManager};
    /// let config = serde_json::json!({"queues": {
    ///     "open": {},
    ///     "chem": {"policy": {"access": {"allow-group": ["chem"]}}},
    /// }});
    /// let m = TestManager::new().config(config);
    /// let mut m = m.known_user(1001, "ada", 100).groups_of_user(1001, ["chem"]).start();
    /// m.submit(TestJob::new().user(1001).queue("chem")).unwrap();
    /// let text = m.submit(TestJob::new().user(1002).queue("chem")).unwrap_err();
    /// assert_eq!(text, "user 1002 is not allowed to submit jobs to queue chem");
    /// ```
    pub fn groups_of_user<'g>(
        mut self,
        user: u32,
        groups: impl IntoIterator<Item = &'g str>,
    ) -> Self {
        self.groups.insert(user, groups.into_iter().map(str::to_owned).collect());
        self
    }

    /// Lets the resources of the instance expire this many seconds after its first start.
    pub fn lifetime(mut self, seconds: f64) -> Self {
        self.lifetime = Some(seconds);
        self
    }

    /// Hands short jobs to the executor ahead of their turn, as a manager does with the jobs of its nodes.
    pub fn prefill(mut self) -> Self {
        self.prefill = true;
        self
    }

    /// Sets all resources, instead of equal hosts.
    pub fn resources(mut self, resources: ResourceSet) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Returns `proposed` as a configuration of this manager, with what the test kit adds.
    pub(super) fn config_of_kit(&self, proposed: &Value) -> Value {
        let loaded = self.plugins.iter().filter(|plugin| self.loaded.contains(&plugin.name));
        config::with_kit_defaults(proposed, loaded.copied())
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

    /// Sets the clocks that meter handlers. By default they stand still.
    pub fn ticks(mut self, ticks: Ticks) -> Self {
        self.ticks = ticks;
        self
    }

    /// Starts the manager.
    ///
    /// # Errors
    /// The reason why the manager can't start, such as an invalid configuration of a plugin.
    pub fn try_start(self) -> Result<TestManager, ManagerStartError> {
        TestManager::boot_first(self)
    }

    /// Starts the manager.
    ///
    /// # Panics
    /// If [`try_start`](Self::try_start) returns an error.
    #[track_caller]
    pub fn start(self) -> TestManager {
        match self.try_start() {
            Ok(manager) => manager,
            Err(error) => panic!("the manager doesn't start: {error}"),
        }
    }
}
