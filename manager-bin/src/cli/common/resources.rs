//! Sets of resources in responses of the manager.

use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use super::message::CliError;

/// Parses the set of resources in the member `key` of a response.
pub(in crate::cli) fn resources(key: &str, r: &Value) -> Result<ResourceSet, CliError> {
    r.to_string().parse().map_err(|error| CliError::failure(format!("{key}: {error}")))
}
