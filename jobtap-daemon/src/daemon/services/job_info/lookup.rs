//! `job-info.lookup`: stored keys of a job, on request with the later updates applied.

use jobtap_core::engine::{Cred, JobLog};
use jobtap_core::eventlog::{Context, Name};
use jobtap_core::jobspec::Jobspec;
use serde_json::{Map, Value};

use crate::daemon::records::{MainLog, Records, unreadable};
use crate::rpc::RpcError;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_info::{Lookup, Values};

/// Returns the requested values.
///
/// # Errors
/// Those of [`Records::main_log_for`] for a job that the client may not read, and ENOENT for a key that the
/// job does not have.
pub(super) fn values(records: &Records, cred: Cred, request: &Lookup) -> Result<Values, RpcError> {
    let log = records.main_log_for(request.id, cred)?;
    let mut values = Map::new();
    for key in &request.keys {
        let text = match key.as_str() {
            "eventlog" => Some(log.text.clone()),
            "guest.exec.eventlog" => records.log(request.id, JobLog::Exec)?,
            name => match records.read_file(request.id, name, cred)? {
                Some(bytes) => Some(String::from_utf8(bytes).map_err(unreadable)?),
                None => records.value(request.id, name)?,
            },
        };
        let text = text.ok_or_else(|| RpcError::new(ENOENT, format!("{key}: key not found")))?;
        let text = match key.as_str() {
            "jobspec" if request.is_current() => current_jobspec(&text, &log)?,
            "R" if request.is_current() => current_resources(&text, &log)?,
            _ => text,
        };
        values.insert(key.clone(), Value::String(text));
    }
    Ok(Values { id: request.id, values })
}

/// The stored jobspec with all `jobspec-update` events applied (RFC 21).
fn current_jobspec(stored: &str, log: &MainLog) -> Result<String, RpcError> {
    let updates = contexts(log, &Name::JobspecUpdate);
    if updates.is_empty() {
        return Ok(stored.to_owned());
    }
    let mut jobspec = Jobspec::parse(stored).map_err(unreadable)?;
    for (path, value) in updates.into_iter().flatten() {
        jobspec.update(path, value.clone()).map_err(unreadable)?;
    }
    Ok(jobspec.value().to_string())
}

/// The stored R with the expiration of the last `resource-update` event (RFC 21).
fn current_resources(stored: &str, log: &MainLog) -> Result<String, RpcError> {
    let updates = contexts(log, &Name::ResourceUpdate);
    let Some(expiration) = updates.iter().rev().find_map(|context| context.get("expiration"))
    else {
        return Ok(stored.to_owned());
    };
    let mut resources: Value = serde_json::from_str(stored).map_err(unreadable)?;
    if let Some(slot) = resources.pointer_mut("/execution/expiration") {
        *slot = expiration.clone();
    }
    Ok(resources.to_string())
}

fn contexts<'a>(log: &'a MainLog, name: &Name) -> Vec<&'a Context> {
    let named = log.events.iter().filter(|event| event.name == *name);
    named.filter_map(|event| event.context.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use jobtap_core::eventlog::decode_log;

    use super::*;

    #[test]
    fn the_last_expiration_counts() {
        let text = "{\"timestamp\":1.0,\"name\":\"resource-update\",\"context\":{\"expiration\":5.0}}\n\
                    {\"timestamp\":2.0,\"name\":\"resource-update\",\"context\":{\"expiration\":9.5}}\n";
        let log = MainLog { text: text.into(), events: decode_log(text).unwrap(), is_array: false };
        let stored = r#"{"version":1,"execution":{"expiration":1.0,"R_lite":[]}}"#;
        assert_eq!(
            current_resources(stored, &log).unwrap(),
            r#"{"version":1,"execution":{"expiration":9.5,"R_lite":[]}}"#
        );
    }
}
