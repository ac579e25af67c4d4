//! The table of measurements: what `jobtap bench` can measure, with how many jobs, and the disk space and
//! memory that this takes.

use clap::ValueEnum;

use super::error::BenchError;
use super::figures::Found;
use super::{callbacks, clients, memory, nodes, queue, restart, run, stages, submit, throughput};

/// The most jobs of a measurement. More would not fit into the memory and on the disk of most machines.
pub(crate) const MOST_JOBS: u64 = 10_000_000;

/// What can be measured. The doc comments are the help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Submissions over the socket: rate and latency, beside that of the disk
    Submit,
    /// From submission to inactive with simulated execution, and processor time
    Throughput,
    /// Processor time of each stage of a job's life alone: decode, plugins, engine, encode, store, publish
    Stages,
    /// Jobs that run /bin/true, beside the same without a manager
    Run,
    /// Jobs over many nodes, which are played by another process; --jobs is their number
    Nodes,
    /// Time of a start with many stored jobs
    Restart,
    /// Memory of pending, running and inactive jobs
    Memory,
    /// Calls of typed handlers and of a Lua script
    Callbacks,
    /// The priorities of all pending jobs asked for again
    Reprioritize,
    /// Single events on 10,000 nodes with a long queue under EASY
    Schedule,
    /// A list of all jobs over the socket
    List,
    /// Many clients that watch one job, and one that watches all jobs
    Watch,
}

/// One measurement.
pub(crate) struct Measurement {
    /// The part that it belongs to.
    pub(crate) part: Part,
    /// Its name, which its process gets as an argument.
    pub(crate) name: &'static str,
    /// The numbers of jobs by default.
    pub(crate) short: &'static [u64],
    /// The numbers of jobs of a full run.
    pub(crate) full: &'static [u64],
    /// Bytes that the stores take on the disk for each job.
    pub(crate) disk: u64,
    /// Bytes of memory that it takes for each job.
    pub(crate) memory: u64,
    /// Runs the measurement.
    pub(super) run: fn(u64) -> Result<Found, BenchError>,
}

/// The measurements in their order.
pub(crate) static MEASUREMENTS: [Measurement; 16] = [
    Measurement {
        part: Part::Submit,
        name: "submit",
        short: &[20_000],
        full: &[100_000],
        disk: 8_000,
        memory: 5_000,
        run: submit::measure,
    },
    Measurement {
        part: Part::Throughput,
        name: "throughput",
        short: &[10_000, 100_000],
        full: &[10_000, 100_000, 1_000_000],
        disk: 8_000,
        memory: 5_000,
        run: throughput::measure,
    },
    Measurement {
        part: Part::Stages,
        name: "stages",
        short: &[20_000],
        full: &[100_000],
        disk: 8_000,
        memory: 5_000,
        run: stages::measure,
    },
    Measurement {
        part: Part::Run,
        name: "run",
        short: &[2_000],
        full: &[20_000],
        disk: 32_000,
        memory: 5_000,
        run: run::measure,
    },
    Measurement {
        part: Part::Nodes,
        name: "nodes",
        short: &[100],
        full: &[1_000, 4_000],
        disk: 800_000,
        memory: 500_000,
        run: nodes::measure,
    },
    Measurement {
        part: Part::Restart,
        name: "restart",
        short: &[20_000],
        full: &[100_000, 1_000_000],
        disk: 8_000,
        memory: 5_000,
        run: restart::measure,
    },
    Measurement {
        part: Part::Memory,
        name: "memory-pending",
        short: &[50_000],
        full: &[100_000],
        disk: 0,
        memory: 5_000,
        run: memory::pending,
    },
    Measurement {
        part: Part::Memory,
        name: "memory-running",
        short: &[50_000],
        full: &[100_000],
        disk: 0,
        memory: 5_000,
        run: memory::running,
    },
    Measurement {
        part: Part::Memory,
        name: "memory-inactive",
        short: &[50_000],
        full: &[100_000],
        disk: 0,
        memory: 4_000,
        run: memory::inactive,
    },
    Measurement {
        part: Part::Callbacks,
        name: "callbacks",
        short: &[20_000],
        full: &[20_000],
        disk: 0,
        memory: 0,
        run: callbacks::typed,
    },
    Measurement {
        part: Part::Callbacks,
        name: "callbacks-lua",
        short: &[5_000],
        full: &[20_000],
        disk: 8_000,
        memory: 5_000,
        run: callbacks::lua,
    },
    Measurement {
        part: Part::Reprioritize,
        name: "reprioritize",
        short: &[100_000],
        full: &[100_000],
        disk: 0,
        memory: 5_000,
        run: queue::reprioritize,
    },
    Measurement {
        part: Part::Schedule,
        name: "schedule",
        short: &[20_000],
        full: &[100_000],
        disk: 0,
        memory: 5_000,
        run: queue::schedule,
    },
    Measurement {
        part: Part::List,
        name: "list",
        short: &[20_000],
        full: &[100_000],
        disk: 8_000,
        memory: 8_000,
        run: clients::list,
    },
    Measurement {
        part: Part::Watch,
        name: "watch-job",
        short: &[1_000],
        full: &[1_000],
        disk: 8_000,
        memory: 100_000,
        run: clients::watch_job,
    },
    Measurement {
        part: Part::Watch,
        name: "watch-all",
        short: &[10_000],
        full: &[100_000],
        disk: 8_000,
        memory: 5_000,
        run: clients::watch_all,
    },
];

/// Not part of the command: `.ci/instructions` counts the instructions of its process.
static COUNTED: Measurement = Measurement {
    part: Part::Stages,
    name: "instructions",
    short: &[],
    full: &[],
    disk: 0,
    memory: 5_000,
    run: stages::without_store,
};

/// The measurement of this name.
pub(super) fn find(name: &str) -> Option<&'static Measurement> {
    MEASUREMENTS.iter().chain([&COUNTED]).find(|measurement| measurement.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_measurements_of_its_own_names() {
        for part in Part::value_variants() {
            assert!(MEASUREMENTS.iter().any(|measurement| measurement.part == *part), "{part:?}");
        }
        for measurement in &MEASUREMENTS {
            let found = find(measurement.name).unwrap();
            assert!(std::ptr::eq(found, measurement), "two are named {}", measurement.name);
            let sizes = measurement.short.iter().chain(measurement.full);
            assert!(sizes.copied().all(|jobs| (1..=MOST_JOBS).contains(&jobs)));
        }
    }
}
