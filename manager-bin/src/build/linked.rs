//! The plugins of this binary, compared with what it was made of.

use jobtap_core::host::{Registry, RegistryError};

use super::composition;
use super::verify;

/// Why a binary's plugins can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkedError {
    /// Their orders contradict each other.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// They differ from those that the binary was made of.
    #[error("this manager is not what it was built to be: {0}")]
    Differs(String),
}

/// Returns the linked plugins in their order. A binary that `jobtap build` made must have those that it was
/// made of: without a plugin that the linker dropped, its policy wouldn't be enforced.
///
/// # Errors
/// [`LinkedError`].
pub(crate) fn registry() -> Result<Registry, LinkedError> {
    let Some(own) = composition::own() else {
        return Ok(Registry::linked()?);
    };
    let registry = Registry::linked_in(&own.order)?;
    let present: Vec<(&str, &str)> =
        registry.plugins().map(|plugin| (plugin.name, plugin.crate_name)).collect();
    let schedulers: Vec<(&str, &str)> =
        registry.schedulers().map(|scheduler| (scheduler.name, scheduler.crate_name)).collect();
    verify::compare(&present, &schedulers, own).map_err(LinkedError::Differs)?;
    Ok(registry)
}

/// Returns the configuration that this binary was built with, which the site's files override.
pub(crate) fn default_config() -> serde_json::Value {
    let own = composition::own().map(|own| own.config.clone());
    own.filter(serde_json::Value::is_object).unwrap_or_else(|| serde_json::json!({}))
}
