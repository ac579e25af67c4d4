//! Replays the jobs of a manager under test to a plugin.

use std::sync::Arc;

use serde_json::Value;

use super::job::TestJob;
use super::manager::TestManager;
use super::refused::ManagerStartError;
use crate::engine::{HostCheck, RecordedJob, ReplayOptions, Replayed, Setup, StoredJob, replay};
use crate::host::{NoReturn, Registry, Ticks};

impl TestManager {
    /// All jobs as they are stored.
    pub fn recorded(&self) -> Vec<RecordedJob> {
        let recorded = |job: StoredJob| {
            let StoredJob { id, eventlog, jobspec, resources, .. } = job;
            RecordedJob { id, eventlog, jobspec, resources }
        };
        self.store.jobs().into_iter().map(recorded).collect()
    }

    /// Replays these jobs to a plugin of this manager, with another configuration, and compares its answers with
    /// what was recorded, as `jobtap replay` does.
    ///
    /// ```
    /// use jobtap_core::engine::ReplayOptions;
    /// use jobtap_core::prelude::*;
    /// use jobtap_core::testing::{TestJob, TestManager};
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize)]
    /// struct Level {
    ///     level: u32,
    /// }
    ///
    /// #[jobtap_plugin(name = "level")]
    /// impl Level {
    ///     #[init]
    ///     fn new(conf: Conf<Level>) -> Self {
    ///         conf.into_inner()
    ///     }
    ///
    ///     #[on("job.state.priority", "job.priority.get")]
    ///     fn priority(&self) -> Priority {
    ///         Priority::new(self.level)
    ///     }
    /// }
    ///
    /// let config = json!({"plugins": {"level": {"level": 5}}});
    /// let mut m = TestManager::new().plugin::<Level>().config(config.clone()).start();
    /// m.submit(TestJob::new()).unwrap();
    /// let replay = |config| m.replay("level", &config, m.recorded(), ReplayOptions::default());
    /// assert_eq!(replay(config).unwrap().different, 0);
    /// let other = replay(json!({"plugins": {"level": {"level": 7}}})).unwrap();
    /// assert_eq!(other.answers[0].answer.as_deref(), Some("7"));
    /// assert_eq!(other.answers[0].recorded.as_deref(), Some("5"));
    /// ```
    ///
    /// # Errors
    /// The plugin can't be loaded with this configuration.
    pub fn replay(
        &self,
        plugin: &str,
        config: &Value,
        jobs: Vec<RecordedJob>,
        options: ReplayOptions,
    ) -> Result<Replayed, ManagerStartError> {
        let registry = Registry::builder().plugins(self.setup.plugins.iter().copied()).build();
        let setup = Setup {
            owner: TestJob::OWNER,
            resources: self.setup.all_resources()?,
            config: self.setup.config_of_kit(config),
            config_directory: None,
            registry: registry?,
            remote: Arc::new(NoReturn),
            ticks: Ticks::default(),
            host_check: HostCheck::default(),
        };
        Ok(replay(setup, plugin, jobs, options)?)
    }
}
