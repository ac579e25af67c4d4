//! Batch scripts with `#SBATCH` lines, for fuzzers.

use std::path::PathBuf;

use jobtap_core::jobspec::Jobspec;
use serde_json::Value;

use super::describe::Request;
use super::{jobspec, script};
use crate::cli::submit::caller::Caller;

/// The jobspec of a script; `None` if the script, its options or their combination are refused.
pub fn script(bytes: Vec<u8>) -> Option<Value> {
    let text = script::check("script", bytes).ok()?;
    let settings = script::settings("script", &text).ok()?;
    let cwd = PathBuf::from("/nowhere");
    let caller = Caller { cwd, now: 1_700_000_000.0, ..Caller::default() };
    let mut request = Request::from_settings(&settings, &caller).ok()?;
    request.desc.script = Some(text);
    request.desc.argv = vec!["script".to_owned()];
    request.desc.work_dir.get_or_insert_with(|| "/".to_owned());
    let jobspec = jobspec(&request.desc, &caller, &request.rlimits, Value::Null).ok()?;
    // The manager refuses what Slurm's description can say and a jobspec can't, such as the name of a property.
    Jobspec::from_value(jobspec.clone()).ok()?;
    Some(jobspec)
}
