//! The shell option `cpu-affinity`: on which CPUs the tasks of a job may run. The option `gpu-affinity` (`gpus`) has
//! the same values.
//!
//! Unlike Flux's job shell the shepherd binds tasks only on request, since the cores of R may be those of simulated
//! nodes. A core of R is the CPU with the same number.

use jobtap_core::resource::{Idset, ResourceSet};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use super::option_error::{OptionError, OptionFault};
use super::placement::place;
use crate::exec::StartJob;

/// The name of the option.
const OPTION: &str = "cpu-affinity";

/// How tasks are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are not bound.
    Off,
    /// All tasks of a node to everything that the job has there.
    On,
    /// Each task to its share of what the job has on its node.
    PerTask,
    /// The tasks of a node to these sets in turn.
    Map(Vec<Idset>),
}

impl Mode {
    /// Reads the option with this name; `None` if it is missing.
    pub(super) fn read(options: &Value, name: &'static str) -> Result<Option<Self>, OptionError> {
        let Some(option) = options.get(name) else { return Ok(None) };
        let text = match option {
            Value::String(text) => text.as_str(),
            // The option without a value has the value 1.
            Value::Number(number) if number.as_i64() == Some(1) => "on",
            other => return Err(OptionError::form(name, other, "no text")),
        };
        let fault = |fault| OptionError::new(name, fault);
        if let Some(list) = text.strip_prefix("map:") {
            let read = |set: &str| {
                let parsed: Idset = match set.strip_prefix("0x") {
                    Some(mask) => {
                        ids_of_mask(mask).ok_or_else(|| fault(OptionFault::Mask(set.to_owned())))?
                    }
                    None => set
                        .parse()
                        .map_err(|error| fault(OptionFault::Ids { set: set.to_owned(), error }))?,
                };
                match parsed.is_empty() {
                    true => Err(fault(OptionFault::NoIds(text.to_owned()))),
                    false => Ok(parsed),
                }
            };
            return list.split(';').map(read).collect::<Result<_, _>>().map(Self::Map).map(Some);
        }
        match text {
            "on" => Ok(Some(Self::On)),
            "off" => Ok(Some(Self::Off)),
            "per-task" => Ok(Some(Self::PerTask)),
            _ => Err(fault(OptionFault::Unknown {
                what: "value",
                name: text.to_owned(),
                known: Some("on, per-task, map:LIST or off"),
            })),
        }
    }

    /// The ids from a map for the task with this index on its node.
    pub(super) fn in_turn(sets: &[Idset], local: usize) -> Vec<u32> {
        let turn = local.checked_rem(sets.len()).and_then(|turn| sets.get(turn));
        turn.map(|set| set.iter().collect()).unwrap_or_default()
    }
}

/// The ids whose bits are set in a mask of hexadecimal digits, the highest digit first, as in `taskset`.
fn ids_of_mask(digits: &str) -> Option<Idset> {
    let mut ids = Vec::new();
    for (digit, low) in digits.chars().rev().zip((0..).step_by(4)) {
        let bits = digit.to_digit(16)?;
        ids.extend((0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| low + bit));
    }
    Some(ids.into_iter().collect())
}

/// The CPUs of the tasks of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Affinity {
    mode: Mode,
    /// The cores of each node of the job, and how many tasks run there.
    nodes: Vec<(Vec<u32>, u32)>,
}

impl Affinity {
    /// The affinity that the job asks for; `None` if its tasks may run everywhere.
    pub(super) fn for_job(job: &StartJob) -> Result<Option<Self>, OptionError> {
        let fault = |fault| OptionError::new(OPTION, fault);
        let mode = match Mode::read(&job.shell_options, OPTION)? {
            None | Some(Mode::Off) => return Ok(None),
            Some(mode) => mode,
        };
        let resources: ResourceSet = job
            .resources
            .to_string()
            .parse()
            .map_err(|error| fault(OptionFault::Resources { what: "cores", error }))?;
        let nodes = job.nodes.iter().map(|node| {
            let cores = resources.rank(node.rank).map(|node| node.cores().iter().collect());
            (cores.unwrap_or_default(), node.ntasks)
        });
        let affinity = Self { mode, nodes: nodes.collect() };
        let here = own_cpus().map_err(|errno| fault(OptionFault::Cpus(errno)))?;
        match affinity.all().into_iter().find(|cpu| !here.contains(cpu)) {
            Some(cpu) => Err(fault(OptionFault::Cpu(cpu))),
            None => Ok(Some(affinity)),
        }
    }

    /// The CPUs of the task with rank `rank`.
    pub(super) fn cpus(&self, job: &StartJob, rank: u32) -> Vec<u32> {
        let place = place(&job.taskmap, rank);
        self.of_task(place.node, place.local)
    }

    fn of_task(&self, node: usize, local: u32) -> Vec<u32> {
        let Some((cores, ntasks)) = self.nodes.get(node) else { return Vec::new() };
        let (local, ntasks) = (local as usize, (*ntasks).max(1) as usize);
        match &self.mode {
            Mode::Off => Vec::new(),
            Mode::On => cores.clone(),
            Mode::Map(sets) => Mode::in_turn(sets, local),
            // Neighboring cores, so that those of a task share caches.
            Mode::PerTask if cores.len() >= ntasks => {
                let bound = |task: usize| task * cores.len() / ntasks;
                let (begin, end) = (bound(local % ntasks), bound(local % ntasks + 1));
                cores.get(begin..end).unwrap_or_default().to_vec()
            }
            Mode::PerTask => {
                let turn = local.checked_rem(cores.len()).and_then(|at| cores.get(at));
                turn.copied().into_iter().collect()
            }
        }
    }

    /// All CPUs that a task is bound to.
    fn all(&self) -> Vec<u32> {
        match &self.mode {
            Mode::Map(sets) => sets.iter().flat_map(Idset::iter).collect(),
            _ => self.nodes.iter().flat_map(|(cores, _)| cores.iter().copied()).collect(),
        }
    }
}

/// The CPUs that the shepherd, and so its jobs, may use.
fn own_cpus() -> Result<Vec<u32>, Errno> {
    let set = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Ok(cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn affinity(option: &str, nodes: &[(&[u32], u32)]) -> Affinity {
        let mode = Mode::read(&json!({ "cpu-affinity": option }), OPTION).unwrap().unwrap();
        let nodes = nodes.iter().map(|(cores, ntasks)| (cores.to_vec(), *ntasks)).collect();
        Affinity { mode, nodes }
    }

    #[test]
    fn tasks_share_the_cores_of_their_node_or_divide_them() {
        let nodes: &[(&[u32], u32)] = &[(&[0, 1, 4, 5, 6], 2), (&[2, 3], 3)];
        let on = affinity("on", nodes);
        assert_eq!((on.of_task(0, 1), on.of_task(1, 2)), (vec![0, 1, 4, 5, 6], vec![2, 3]));
        let divided = affinity("per-task", nodes);
        assert_eq!((divided.of_task(0, 0), divided.of_task(0, 1)), (vec![0, 1], vec![4, 5, 6]));
        let turns: Vec<Vec<u32>> = (0..3).map(|local| divided.of_task(1, local)).collect();
        assert_eq!(turns, [[2], [3], [2]], "more tasks than cores take turns");
        assert_eq!(affinity("map:0x2;0x18", nodes), affinity("map:1;3-4", nodes));
        let map = affinity("map:1;3-4", nodes);
        let turns: Vec<Vec<u32>> = (0..3).map(|local| map.of_task(0, local)).collect();
        assert_eq!(turns, [vec![1], vec![3, 4], vec![1]]);
    }

    #[test]
    fn the_option_is_read_and_refused_in_words() {
        let read = |option: Value| Mode::read(&json!({ "cpu-affinity": option }), OPTION);
        assert_eq!(Mode::read(&json!({}), OPTION), Ok(None));
        assert_eq!(read(json!("off")), Ok(Some(Mode::Off)));
        assert_eq!(read(json!(1)), Ok(Some(Mode::On)));
        for (option, text) in [
            (json!("foo"), "cpu-affinity: unknown value 'foo': use on, per-task, map:LIST or off"),
            (json!("map:1;"), "cpu-affinity: 'map:1;': a list of ids is empty"),
            (json!([1]), "cpu-affinity: [1] is no text"),
        ] {
            assert_eq!(read(option).unwrap_err().to_string(), text);
        }
        assert!(read(json!("map:x")).is_err());
        assert!(read(json!("map:0xg")).is_err());
    }
}
