//! The cost of a submission with a Slurm policy, as a typed plugin and as a Lua script.
//!
//! - `none`: a whole submission in the test kit without a policy.
//! - `typed`, `lua`: the same with the policy, in Rust and in Lua; the difference from `none` is the policy's
//!   cost.
//! - `script`: a call of the script alone, without a manager.
//!
//! `cargo bench -p jobtap-builtins --bench slurm`
#![allow(clippy::unwrap_used, missing_docs)]

use divan::Bencher;
use jobtap_builtins::lua::{Options, Script, Surroundings};
use jobtap_builtins::{Lua, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, Partition, SlurmError, errno};
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::json;

fn main() {
    divan::main();
}

/// The policy as a plugin.
#[derive(Default)]
struct Policy;

#[jobtap_plugin(name = "policy")]
impl Policy {
    #[on("slurm.job_submit")]
    fn submit(
        mut desc: Descriptor<'_>,
        user: SubmitUid,
        partitions: Partitions<'_>,
        cx: Cx<'_, SlurmJobSubmit>,
    ) -> Result<(), SlurmError> {
        if desc.name.as_deref() == Some("forbidden") {
            return Err(errno::ESLURM_ACCESS_DENIED);
        }
        let minutes = desc.time_limit.unwrap_or(60);
        if desc.partition.is_none() {
            let fits = partitions.iter().find(|partition| minutes <= partition.max_time);
            desc.partition = fits.and_then(|partition| partition.name.clone());
        }
        if desc.account.is_none() {
            desc.account = Some("guests".to_owned());
        }
        desc.comment = Some(format!("uid {}, {} hours", user.0, minutes / 60));
        cx.log(Level::Debug, "seen");
        Ok(())
    }
}

/// The same policy as a script.
const SCRIPT: &str = r#"
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.name == "forbidden" then
    return slurm.ESLURM_ACCESS_DENIED
  end
  local minutes = job_desc.time_limit
  if minutes == slurm.NO_VAL then
    minutes = 60
  end
  if job_desc.partition == nil then
    for name, part in pairs(part_list) do
      if minutes <= part.max_time then
        job_desc.partition = name
        break
      end
    end
  end
  if job_desc.account == nil then
    job_desc.account = "guests"
  end
  job_desc.comment = "uid " .. submit_uid .. ", " .. math.floor(minutes / 60) .. " hours"
  slurm.log_debug("seen")
  return slurm.SUCCESS
end
function slurm_job_modify()
  return slurm.SUCCESS
end
"#;

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("job_submit.lua"), SCRIPT).unwrap();
    directory
}

fn builder() -> TestManagerBuilder {
    let queue = json!({"policy": {"limits": {"duration": "1d"}}});
    TestManager::new().plugin::<PriorityDefault>().config(json!({
        "queues": {"batch": queue, "debug": queue, "gpu": queue},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}},
    }))
}

/// Submissions of jobs that are held, so that each costs the same.
fn submissions(bencher: Bencher<'_, '_>, mut manager: TestManager) {
    bencher.bench_local(|| manager.submit(TestJob::new().urgency(0).duration(600.0)).unwrap());
}

#[divan::bench]
fn none(bencher: Bencher<'_, '_>) {
    submissions(bencher, builder().start());
}

#[divan::bench]
fn typed(bencher: Bencher<'_, '_>) {
    submissions(bencher, builder().plugin::<Policy>().start());
}

#[divan::bench]
fn lua(bencher: Bencher<'_, '_>) {
    let directory = directory();
    submissions(bencher, builder().plugin::<Lua>().config_directory(directory.path()).start());
}

#[divan::bench]
fn script(bencher: Bencher<'_, '_>) {
    let directory = directory();
    let path = directory.path().join("job_submit.lua");
    let mut script = Script::load(&path, Options::default(), &mut Vec::new()).unwrap();
    let partition = |name: &str| Partition {
        name: Some(name.to_owned()),
        max_time: 1440,
        ..Partition::default()
    };
    let partitions = ["batch", "debug", "gpu"].map(partition).to_vec();
    bencher.bench_local(|| {
        let surroundings = Surroundings { partitions: partitions.clone(), ..Default::default() };
        let mut desc = JobDescriptor { time_limit: Some(10), ..JobDescriptor::default() };
        let verdict = script.submit(&mut desc, surroundings, 1000);
        assert_eq!(verdict.code, 0);
        desc
    });
}
