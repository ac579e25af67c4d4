//! Runs the wanted measurements, one after the other, each round in a process of its own.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::error::BenchError;
use super::figures::{Better, Figure, Found, Machine, Report, VERSION, count, medians};
use super::measures::{MEASUREMENTS, Measurement, Part};
use super::process;
use crate::files::TemporaryDir;

/// How long the processes may take to exit after an interrupt. A manager ends its jobs and removes its
/// directory in that time.
const LONGEST_END: Duration = Duration::from_secs(30);

/// The longest path of a directory in which a manager's state directory has room for its socket, whose path has at
/// most 107 bytes.
const LONGEST_PATH: usize = 107 - "/jobtap-XXXXXXXXXXXX/local-0".len();

/// What is to be measured.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The parts; all of them if this is empty.
    pub(crate) parts: Vec<Part>,
    /// The numbers of jobs; those of the table if this is empty.
    pub(crate) jobs: Vec<u64>,
    /// Whether the numbers are those of a full run.
    pub(crate) full: bool,
    /// How often everything is measured.
    pub(crate) rounds: u64,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// A measurement failed.
    #[error(transparent)]
    Failed(#[from] BenchError),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl From<std::io::Error> for RunError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Wanted {
    /// The wanted measurements with their numbers of jobs.
    fn measurements(&self) -> impl Iterator<Item = (&'static Measurement, &[u64])> {
        let wanted = |one: &&Measurement| self.parts.is_empty() || self.parts.contains(&one.part);
        MEASUREMENTS.iter().filter(wanted).map(|one| (one, self.sizes(one)))
    }

    fn sizes(&self, measurement: &'static Measurement) -> &[u64] {
        match (self.jobs.as_slice(), self.full) {
            ([], false) => measurement.short,
            ([], true) => measurement.full,
            (jobs, _) => jobs,
        }
    }
}

/// Ends child processes when the user interrupts this one.
pub(crate) struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

/// What a process printed.
pub(crate) struct Output {
    /// Whether it succeeded.
    pub(crate) success: bool,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Interrupts {
    /// From now on, SIGINT and SIGTERM don't end this process at once. Must be called within a runtime.
    pub(crate) fn new() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Runs a command to its end. An interrupt is passed on to it as SIGTERM.
    pub(crate) async fn run(&mut self, command: std::process::Command) -> Result<Output, RunError> {
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        // Kept open until the process has exited, since it takes a closed standard input to mean that this
        // process is gone.
        let _input = child.stdin.take();
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let mut ended = std::pin::pin!(child.wait_with_output());
        tokio::select! {
            output = &mut ended => {
                let output = output?;
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                let (out, err) = (text(output.stdout), text(output.stderr));
                return Ok(Output { success: output.status.success(), out, err });
            }
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = tokio::time::timeout(LONGEST_END, ended).await;
        Err(RunError::Interrupted)
    }
}

/// Runs the wanted measurements. `tell` gets each result as soon as it is known.
///
/// # Errors
/// A measurement fails, there is no room for it, or the user interrupts it.
pub(crate) async fn run(
    wanted: &Wanted,
    program: String,
    mut tell: impl FnMut(&Found) -> Result<(), RunError>,
) -> Result<Report, RunError> {
    let mut interrupts = Interrupts::new()?;
    let directory = TemporaryDir::new().map_err(BenchError::from)?;
    check_path(directory.path())?;
    for (measurement, sizes) in wanted.measurements() {
        for jobs in sizes {
            check_room(measurement, *jobs, directory.path())?;
        }
    }
    let mut whole = Found::default();
    for (measurement, sizes) in wanted.measurements() {
        let mut of_sizes = Vec::new();
        for jobs in sizes {
            let mut rounds = Vec::new();
            for _ in 0..wanted.rounds {
                rounds.push(once(&mut interrupts, measurement, *jobs, directory.path()).await?);
            }
            let mut found = medians(rounds);
            if measurement.part == Part::Throughput {
                of_sizes.extend(found.figures.iter().find(|figure| is_time(figure)).cloned());
                found.figures.extend(growth(&of_sizes));
            }
            tell(&found)?;
            whole.figures.extend(found.figures);
            whole.skipped.extend(found.skipped);
        }
    }
    let Found { figures, skipped } = whole;
    Ok(Report { bench: VERSION, program, machine: machine(), figures, skipped })
}

async fn once(
    interrupts: &mut Interrupts,
    measurement: &Measurement,
    jobs: u64,
    directory: &Path,
) -> Result<Found, RunError> {
    let output = interrupts.run(process::measuring(measurement.name, jobs, directory)).await?;
    let found = serde_json::from_str(&output.out);
    match found {
        Ok(found) if output.success => Ok(found),
        _ => {
            let said = Some(output.err.trim_end().to_owned()).filter(|said| !said.is_empty());
            Err(BenchError::Failed { measurement: measurement.name, jobs, said }.into())
        }
    }
}

fn is_time(figure: &Figure) -> bool {
    figure.name == "throughput.time"
}

/// The time of a job at the last number of jobs, divided by its time at the first.
fn growth(times: &[Figure]) -> Option<Figure> {
    let ([first, .., last], [..]) = (times, times) else { return None };
    let text = format!("the time of a job over that at {} jobs", count(first.jobs));
    Some(Figure {
        name: "throughput.growth".to_owned(),
        jobs: last.jobs,
        value: last.value / first.value,
        unit: String::new(),
        better: Better::Less,
        text,
        values: vec![last.value / first.value],
    })
}

/// Fails when no socket can be made below this directory.
fn check_path(directory: &Path) -> Result<(), BenchError> {
    if directory.as_os_str().len() <= LONGEST_PATH {
        return Ok(());
    }
    Err(BenchError::LongPath(std::env::temp_dir()))
}

/// Fails when a measurement would fill the disk or the memory.
fn check_room(measurement: &Measurement, jobs: u64, directory: &Path) -> Result<(), BenchError> {
    let name = measurement.name;
    let needed = jobs.saturating_mul(measurement.disk);
    let free = rustix::fs::statvfs(directory).map_err(std::io::Error::from)?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if needed > free {
        let place = std::env::temp_dir();
        return Err(BenchError::NoDisk { measurement: name, jobs, needed, place, free });
    }
    let needed = jobs.saturating_mul(measurement.memory);
    match available_memory() {
        Some(available) if needed > available => {
            Err(BenchError::NoMemory { measurement: name, jobs, needed, available })
        }
        _ => Ok(()),
    }
}

/// The bytes of memory that processes may still take, if the system reports them.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The machine, and the file system of temporary directories.
pub(crate) fn machine() -> Machine {
    let directory = std::env::temp_dir();
    let filesystem = match rustix::fs::statfs(&directory) {
        Ok(found) => filesystem(found.f_type as u64),
        Err(_) => "unknown".to_owned(),
    };
    let system = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from) as u64,
        kernel: format!("{} {}", text(system.sysname()), text(system.release())),
        directory: directory.display().to_string(),
        filesystem,
    }
}

/// The name of a file system by its number in `statfs`.
fn filesystem(kind: u64) -> String {
    let name = match kind & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measures::MOST_JOBS;

    #[test]
    fn a_measurement_without_room_is_refused_in_words() {
        let measurement = Measurement {
            part: Part::Submit,
            name: "submit",
            short: &[],
            full: &[],
            disk: u64::MAX / MOST_JOBS,
            memory: 0,
            run: |_| Ok(Found::default()),
        };
        let directory = std::env::temp_dir();
        check_room(&measurement, 0, &directory).unwrap();
        let error = check_room(&measurement, MOST_JOBS, &directory).unwrap_err().to_string();
        assert!(error.starts_with("submit of 10M jobs needs about "), "{error}");
        assert!(error.contains("set TMPDIR to another directory"), "{error}");
        let measurement = Measurement { disk: 0, memory: measurement.disk, ..measurement };
        let error = check_room(&measurement, MOST_JOBS, &directory).unwrap_err().to_string();
        assert!(error.contains(" of memory, and "), "{error}");
    }

    #[test]
    fn a_path_has_room_for_the_socket_below_it() {
        let path = |length: usize| std::path::PathBuf::from(format!("/{}", "x".repeat(length - 1)));
        check_path(&path(LONGEST_PATH)).unwrap();
        let error = check_path(&path(LONGEST_PATH + 1)).unwrap_err().to_string();
        assert!(error.ends_with("set TMPDIR to a directory with a shorter path"), "{error}");
        let socket = path(LONGEST_PATH).join("jobtap-XXXXXXXXXXXX/local-0");
        assert!(rustix::net::SocketAddrUnix::new(socket).is_ok());
    }

    #[test]
    fn sizes_are_those_of_the_table_or_of_the_user() {
        let wanted = |jobs: &[u64], full| Wanted {
            parts: vec![Part::Throughput],
            jobs: jobs.to_vec(),
            full,
            rounds: 1,
        };
        let sizes = |wanted: &Wanted| wanted.measurements().flat_map(|(_, s)| s.to_vec()).collect();
        let of_user: Vec<u64> = sizes(&wanted(&[7], true));
        assert_eq!(of_user, [7]);
        let full: Vec<u64> = sizes(&wanted(&[], true));
        assert_eq!(full, [10_000, 100_000, 1_000_000]);
    }

    #[test]
    fn growth_compares_the_last_number_of_jobs_with_the_first() {
        let of = |jobs: u64, value: f64| {
            let mut found = Found::default();
            found.less("throughput.time", jobs, value, "us/job", "");
            found.figures.remove(0)
        };
        assert_eq!(growth(&[of(10, 2.0)]), None);
        let growth = growth(&[of(10, 2.0), of(100, 2.0), of(1000, 3.0)]).unwrap();
        assert_eq!((growth.jobs, growth.value), (1000, 1.5));
    }
}
