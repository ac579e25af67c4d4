//! An upgrade needs the version that it leads to.
use jobtap_core::prelude::*;

#[data(upgrade = from_minutes)]
#[derive(Default, Serialize, Deserialize)]
struct Usage(u64);

fn from_minutes(_version: u32, old: serde_json::Value) -> Result<Usage, UpgradeError> {
    Ok(Usage(old.as_u64().unwrap_or_default() * 60))
}

fn main() {
    let _ = from_minutes(1, serde_json::Value::Null).map(|usage| usage.0);
}
