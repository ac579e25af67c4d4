//! The shell option `gpu-affinity`: which GPUs the tasks of a job see, by the variable that CUDA reads.
//!
//! Without it two jobs that have a GPU each would both use the first one of their node. Unlike Flux's job shell, the
//! shepherd hides no GPUs from jobs that have none, unless the option is there: where `[resource]` doesn't name the
//! GPUs of a host, no job has one, and all jobs may use them.

use jobtap_core::resource::ResourceSet;
use serde_json::Value;

use super::affinity::Mode;
use super::option_error::{OptionError, OptionFault};
use super::placement::place;
use crate::exec::StartJob;

/// The name of the option.
const OPTION: &str = "gpu-affinity";

/// The variable with the GPUs that CUDA shows a program. ROCm reads it too.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The order in which CUDA numbers GPUs: the one in which tools such as `nvidia-smi` list them. No library has it as
/// its default, and the job's own variable takes precedence.
pub(super) const ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");

/// No GPU has this id, so that a program sees none.
const NOTHING: &str = "-1";

/// The GPUs of the tasks of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpus {
    mode: Mode,
    /// The GPUs of each node of the job, and how many tasks run there.
    nodes: Vec<(Vec<u32>, u32)>,
}

impl Gpus {
    /// The GPUs of the job; `None` if neither R nor the option mentions GPUs.
    pub(super) fn for_job(job: &StartJob) -> Result<Option<Self>, OptionError> {
        let mode = match Mode::read(&job.shell_options, OPTION)? {
            Some(Mode::Off) => return Ok(None),
            Some(mode) => mode,
            None if has_gpus(&job.resources) => Mode::On,
            None => return Ok(None),
        };
        let resources: ResourceSet = job.resources.to_string().parse().map_err(|error| {
            OptionError::new(OPTION, OptionFault::Resources { what: "GPUs", error })
        })?;
        let nodes = job.nodes.iter().map(|node| {
            let gpus = resources.rank(node.rank).map(|node| node.gpus().iter().collect());
            (gpus.unwrap_or_default(), node.ntasks)
        });
        Ok(Some(Self { mode, nodes: nodes.collect() }))
    }

    /// The variable of the task with rank `rank`.
    pub(super) fn variable(&self, job: &StartJob, rank: u32) -> (&'static str, String) {
        let place = place(&job.taskmap, rank);
        let ids: Vec<String> =
            self.of_task(place.node, place.local).iter().map(u32::to_string).collect();
        let visible = if ids.is_empty() { NOTHING.to_owned() } else { ids.join(",") };
        (VISIBLE, visible)
    }

    fn of_task(&self, node: usize, local: u32) -> Vec<u32> {
        let Some((gpus, ntasks)) = self.nodes.get(node) else { return Vec::new() };
        let local = local as usize;
        match &self.mode {
            Mode::Off => Vec::new(),
            Mode::On => gpus.clone(),
            Mode::Map(sets) => Mode::in_turn(sets, local),
            // All tasks have the same number of GPUs; those left over stay unused, as in Flux.
            Mode::PerTask => {
                let share = gpus.len() / (*ntasks).max(1) as usize;
                gpus.get(local * share..(local + 1) * share).unwrap_or_default().to_vec()
            }
        }
    }
}

/// Whether R names GPUs. Most jobs have none, and their R need not be read as a whole.
fn has_gpus(resources: &Value) -> bool {
    let entries = resources.get("execution").and_then(|execution| execution.get("R_lite"));
    let gpus = |entry: &Value| {
        let gpus = entry.get("children").and_then(|children| children.get("gpu"));
        gpus.and_then(Value::as_str).is_some_and(|ids| !ids.is_empty())
    };
    entries.and_then(Value::as_array).into_iter().flatten().any(gpus)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exec::NodeTasks;

    fn job(options: Value, gpus: &str) -> StartJob {
        let mut job = StartJob::new("f3".parse().unwrap());
        job.shell_options = options;
        let entry = json!({"rank": "1", "children": {"core": "0-3", "gpu": gpus}});
        let execution =
            json!({"R_lite": [entry], "nodelist": ["n"], "starttime": 0, "expiration": 0});
        job.resources = json!({"version": 1, "execution": execution});
        job.nodes = vec![NodeTasks { rank: 1, ntasks: 2 }];
        job.ntasks = 2;
        job
    }

    fn seen(option: Option<&str>, gpus: &str) -> Option<[String; 2]> {
        let options = option.map_or(json!({}), |option| json!({ "gpu-affinity": option }));
        let all = Gpus::for_job(&job(options, gpus)).unwrap()?;
        Some([0, 1].map(|local| {
            all.of_task(0, local).iter().map(u32::to_string).collect::<Vec<_>>().join(",")
        }))
    }

    #[test]
    fn tasks_see_the_gpus_of_their_job_or_their_share() {
        let both = |ids: &str| Some([ids.to_owned(), ids.to_owned()]);
        assert_eq!(seen(None, "2,5-6"), both("2,5,6"));
        assert_eq!(seen(Some("on"), "2"), both("2"));
        assert_eq!(seen(Some("per-task"), "2,5-6"), Some(["2".to_owned(), "5".to_owned()]));
        assert_eq!(seen(Some("per-task"), "2"), both(""), "one GPU can't be divided");
        assert_eq!(seen(Some("map:1;3-4"), "2"), Some(["1".to_owned(), "3,4".to_owned()]));
    }

    #[test]
    fn gpus_are_hidden_from_jobs_without_one_only_on_request() {
        assert_eq!((seen(None, ""), seen(Some("off"), "1")), (None, None));
        let job = job(json!({"gpu-affinity": "on"}), "");
        let gpus = Gpus::for_job(&job).unwrap().unwrap();
        assert_eq!(gpus.variable(&job, 0), ("CUDA_VISIBLE_DEVICES", "-1".to_owned()));
    }

    #[test]
    fn a_wrong_value_is_refused_in_words() {
        let text = "gpu-affinity: unknown value 'x': use on, per-task, map:LIST or off";
        let refused = Gpus::for_job(&job(json!({"gpu-affinity": "x"}), "1")).unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
}
