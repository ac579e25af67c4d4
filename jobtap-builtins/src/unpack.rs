//! Configuration tables without unknown keys, with the message of Flux for one.

use jobtap_core::plugin::ConfTable;
use jobtap_core::prelude::*;
use serde_json::Value;

/// Reads a table that may not have unknown keys.
pub(crate) fn unpack<C: ConfTable>(table: &Value) -> Result<C, ConfError> {
    let strays = C::unknown_keys(table);
    if strays.is_empty() {
        return C::read(table);
    }
    let (count, keys) = (strays.len(), strays.join(", "));
    Err(ConfError::new(format!("{count} object item(s) left unpacked: {keys}")))
}
