//! The settings that the manager itself, not its engine, reads from the configuration. All are read at
//! once, at the start and for each new configuration, so that nothing has changed when one is refused.

use jobtap_core::settings::{SettingError, setting};
use serde_json::Value;

use super::http::{HttpError, HttpSettings};
use super::jobspec_size::{self, MaxJobspecError};
use super::keys::{Judgement, Plugins, judge};
use super::place::{self, Step};
use super::resource::{self, ResourceTableError};
use crate::daemon::audit::{self, AuditError};
use crate::daemon::log::{RingSizeError, ring_size};
use crate::daemon::rights::access::{AccessError, AccessSettings};
use crate::daemon::rights::privacy::PrivateMode;
use crate::exec::nodes::AllocationAddress;
use crate::exec::{KillPolicy, KillPolicyError, OutputLimitError, output_limit};
use crate::store::{StoreSettings, StoreSettingsError};

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The size of the log is not a number of lines.
    #[error(transparent)]
    Log(#[from] RingSizeError),
    /// The number of events in the audit log is not a number.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A setting for how jobs are killed.
    #[error(transparent)]
    Kill(#[from] KillPolicyError),
    /// The limit of the output that is kept.
    #[error(transparent)]
    Output(#[from] OutputLimitError),
    /// `exec.imp`.
    #[error(transparent)]
    Imp(SettingError),
    /// One of `[allocation-address]`.
    #[error(transparent)]
    AllocationAddress(SettingError),
    /// One of `[access]`.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// One of `[http]`.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// One of `[ingest]`.
    #[error(transparent)]
    Ingest(#[from] MaxJobspecError),
    /// One of `[resource]`.
    #[error(transparent)]
    Resource(#[from] ResourceTableError),
    /// One of `[store]`.
    #[error(transparent)]
    Store(#[from] StoreSettingsError),
    /// A key that is not served, or is unknown.
    #[error("{}", .0.text)]
    Key(Judgement),
}

impl SettingsError {
    /// The place of the setting in the configuration.
    pub(in crate::daemon) fn place(&self, config: &Value) -> Vec<Step> {
        match self {
            Self::Key(judgement) => judgement.place.clone(),
            other => place::locate(&other.to_string(), config),
        }
    }
}

/// The settings.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) struct Settings {
    /// How many lines the log keeps.
    pub(in crate::daemon) ring_size: usize,
    /// How many events the audit log keeps.
    pub(in crate::daemon) audited: usize,
    pub(in crate::daemon) kill: KillPolicy,
    /// How many bytes of a job's output streams are kept if they have no file.
    pub(in crate::daemon) output_limit: u64,
    pub(in crate::daemon) access: AccessSettings,
    pub(in crate::daemon) private_mode: PrivateMode,
    /// The largest jobspec that is accepted, in bytes.
    pub(in crate::daemon) max_jobspec: usize,
    pub(in crate::daemon) store: StoreSettings,
}

impl Settings {
    /// Reads `config`, the whole configuration. This looks users up, which may take long.
    ///
    /// # Errors
    /// The first setting that cannot be used, with its key.
    pub(in crate::daemon) fn read(
        config: &Value,
        plugins: &dyn Plugins,
    ) -> Result<Self, SettingsError> {
        // Only checked here: the manager reads them again when it begins to listen, which it does once.
        HttpSettings::read(config)?;
        AllocationAddress::read(config).map_err(SettingsError::AllocationAddress)?;
        // Read at the start only, but a configuration that is loaded must serve the next start too.
        resource::check(config)?;
        // Plugins read it, where they need it.
        setting::<String>(config, "exec.imp").map_err(SettingsError::Imp)?;
        if let Some(refused) = judge(config, plugins).into_iter().find(|found| found.refused) {
            return Err(SettingsError::Key(refused));
        }
        Ok(Self {
            ring_size: ring_size(config)?,
            audited: audit::limit(config)?,
            kill: KillPolicy::read(config)?,
            output_limit: output_limit::of_config(config)?,
            access: AccessSettings::read(config)?,
            private_mode: PrivateMode::read(config)?,
            max_jobspec: jobspec_size::limit(config)?,
            store: StoreSettings::read(config)?,
        })
    }
}

impl Settings {
    /// Returns all errors of [`read`](Self::read), not only the first one, except for keys that are refused whatever
    /// their values.
    pub(super) fn problems(config: &Value) -> Vec<SettingsError> {
        fn problem<T, E: Into<SettingsError>>(read: Result<T, E>) -> Option<SettingsError> {
            read.err().map(Into::into)
        }
        let problems = [
            problem(ring_size(config)),
            problem(audit::limit(config)),
            problem(KillPolicy::read(config)),
            problem(output_limit::of_config(config)),
            problem(setting::<String>(config, "exec.imp").map_err(SettingsError::Imp)),
            problem(AccessSettings::read(config)),
            problem(PrivateMode::read(config)),
            problem(jobspec_size::limit(config)),
            problem(StoreSettings::read(config)),
            problem(HttpSettings::read(config)),
            problem(resource::check_keys(config)),
            problem(AllocationAddress::read(config).map_err(SettingsError::AllocationAddress)),
        ];
        problems.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::daemon::config::keys::PluginState;

    struct NoPlugins;

    impl Plugins for NoPlugins {
        fn read(&self, _: &[&str]) -> bool {
            false
        }

        fn state(&self, _: &str) -> PluginState {
            PluginState::NotLinked
        }
    }

    #[test]
    fn a_refused_setting_is_named_by_its_key() {
        for (config, key) in [
            (json!({"audit": {"max-events": 0}}), "audit.max-events"),
            (json!({"log": {"ring-size": "x"}}), "log.ring-size"),
            (json!({"exec": {"kill-signal": "SIGNONE"}}), "exec.kill-signal"),
            (json!({"exec": {"output-limit": "2G"}}), "exec.output-limit"),
            (json!({"exec": {"imp": 5}}), "exec.imp"),
            (json!({"resource": {"verify": {"core": "lax"}}}), "verify"),
            (json!({"access": {"private-mode": 1}}), "access.private-mode"),
            (json!({"access": {"allow-guest-user": 1}}), "access.allow-guest-user"),
            (json!({"access": {"guest-request-rate": "x"}}), "access.guest-request-rate"),
            (json!({"http": {"listen": "0.0.0.0:80"}}), "http.listen"),
            (json!({"ingest": {"max-jobspec-size": "1M"}}), "ingest.max-jobspec-size"),
            (json!({"resource": {"noverfy": true}}), "noverfy"),
            (json!({"store": {"memory": "1M"}}), "store.memory"),
            (json!({"store": {"damage": "x"}}), "store.damage"),
        ] {
            let refused = Settings::read(&config, &NoPlugins).map_err(|error| error.to_string());
            assert!(refused.as_ref().is_err_and(|text| text.contains(key)), "{refused:?}");
            let problems = Settings::problems(&config);
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(refused, Err(problems.concat()));
        }
        let read = Settings::read(&json!({"audit": {"max-events": 5}}), &NoPlugins);
        assert!(read.is_ok_and(|settings| settings.audited == 5));
    }
}
