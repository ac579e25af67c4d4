//! Configuration tables that Flux unpacks strictly: a key too many is told in its words.

use jobtap_core::plugin::ConfTable;
use jobtap_core::prelude::*;
use serde_json::Value;

/// Reads a table in which nothing may be left over.
pub(crate) fn unpack<C: ConfTable>(table: &Value) -> Result<C, ConfError> {
    let strays = C::unknown_keys(table);
    if strays.is_empty() {
        return C::read(table);
    }
    let (count, keys) = (strays.len(), strays.join(", "));
    Err(ConfError::new(format!("{count} object item(s) left unpacked: {keys}")))
}
