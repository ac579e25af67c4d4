//! Submissions over the socket, each answered when it is durable: by one client, by many, and many at once by one.
//!
//! The jobs wait for resources that another job has. The disk is measured as well, since no durable answer
//! can be faster than the disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::connection::Submissions;
use super::error::BenchError;
use super::figures::{Found, quantile};
use super::process::{Manager, ManagerSetup};
use super::{CORES, document, one_host};

/// The number of clients that submit at the same time.
const CLIENTS: u64 = 64;

/// How often clients and the disk take turns, and how many times the disk is measured in each turn. The
/// latency of a disk changes after a pause, and from one second to the next. One client has the same rhythm
/// as the disk.
const TURNS_OF_ONE: (u64, usize) = (300, 1);
const TURNS_OF_MANY: (u64, usize) = (10, 30);

/// The number of bytes that are appended each time, about as many as a submission writes.
const RECORD: usize = 4096;

/// Runs the measurement: `jobs` at once, half as many by many clients, a tenth one by one.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let setup = ManagerSetup::with(one_host());
    let manager = Manager::start(&setup)?;
    let mut found = Found::default();

    let mut client = manager.connect()?;
    client.submit_all(&Submissions::from_jobspec(document(0.0, u64::from(CORES), 0))?, 1)?;
    let submissions = Submissions::simulated(60.0)?;

    let mut disk = Disk::new(&std::env::temp_dir())?;
    let each = (jobs / 10).max(1);
    let one = in_turns(&manager, &submissions, (1, each), (&mut disk, TURNS_OF_ONE))?;
    let text = "one client, one job after the other";
    one.add_to(&mut found, "submit.one", text);
    let each = (jobs / 2).div_ceil(CLIENTS);
    let many = in_turns(&manager, &submissions, (CLIENTS, each), (&mut disk, TURNS_OF_MANY))?;
    let text = format!("{CLIENTS} clients at once, each one job after the other");
    many.add_to(&mut found, "submit.clients", &text);

    let begin = Instant::now();
    client.submit_all(&submissions, jobs)?;
    let rate = jobs as f64 / begin.elapsed().as_secs_f64();
    let text = "one client that waits for no answer before the next request";
    found.more("submit.bulk.rate", jobs, rate, "jobs/s", text);
    manager.end()?;

    let mut both = [one.disk.as_slice(), &many.disk].concat();
    let text = "the disk alone, in turns with them: append 4 KiB, fdatasync";
    found.less("submit.fdatasync.p50", jobs, quantile(&mut both, 0.5), "us", text);
    found.less("submit.fdatasync.p99", jobs, quantile(&mut both, 0.99), "us", "");
    let of = |values: &[f64], share| quantile(&mut values.to_vec(), share);
    let ratio = of(&one.latencies, 0.5) / of(&one.disk, 0.5);
    let text = "the median of one client / that of fdatasync in the same turns";
    found.less("submit.one.fdatasyncs", one.jobs, ratio, "", text);
    let ratio = of(&many.latencies, 0.99) / of(&many.disk, 0.5);
    let text = format!("the p99 of {CLIENTS} clients / the median of fdatasync in the same turns");
    found.less("submit.clients.fdatasyncs", many.jobs, ratio, "", &text);
    Ok(found)
}

/// The times that clients and the disk took in turns.
#[derive(Default)]
struct Taken {
    jobs: u64,
    elapsed: Duration,
    /// The time from request to answer, in microseconds.
    latencies: Vec<f64>,
    /// The time of an fdatasync, in microseconds.
    disk: Vec<f64>,
}

impl Taken {
    /// Adds the rate and the quantiles of latencies.
    fn add_to(&self, found: &mut Found, name: &str, text: &str) {
        let rate = self.jobs as f64 / self.elapsed.as_secs_f64();
        found.more(&format!("{name}.rate"), self.jobs, rate, "jobs/s", text);
        let mut latencies = self.latencies.clone();
        for (quantile_name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let latency = quantile(&mut latencies, share);
            let name = format!("{name}.{quantile_name}");
            found.less(&name, self.jobs, latency, "us", "from request to answer");
        }
    }
}

/// Lets clients submit jobs in turns with the disk.
fn in_turns(
    manager: &Manager,
    submissions: &Submissions,
    (clients, each): (u64, u64),
    (disk, (turns, writes)): (&mut Disk, (u64, usize)),
) -> Result<Taken, BenchError> {
    let mut taken = Taken::default();
    let turns = turns.min(each);
    for turn in 0..turns {
        // Divides the jobs among the turns, which differ by one job at most.
        let now = each * (turn + 1) / turns - each * turn / turns;
        for _ in 0..writes {
            taken.disk.push(disk.write()?);
        }
        let (elapsed, latencies) = by_clients(manager, submissions, clients, now)?;
        taken.jobs += clients * now;
        taken.elapsed += elapsed;
        taken.latencies.extend(latencies);
    }
    Ok(taken)
}

/// Lets clients submit jobs, each after the answer to the one before, and returns the time and the latencies.
fn by_clients(
    manager: &Manager,
    submissions: &Submissions,
    clients: u64,
    each: u64,
) -> Result<(Duration, Vec<f64>), BenchError> {
    let connections =
        (0..clients).map(|_| manager.connect()).collect::<Result<Vec<_>, BenchError>>()?;
    let begin = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let lanes: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                scope.spawn(move || {
                    let mut latencies = Vec::new();
                    let mut request = String::new();
                    for number in 1..=each {
                        request.clear();
                        submissions.write(number, &mut request);
                        let sent = Instant::now();
                        connection.send(&request)?;
                        connection.response()?;
                        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
                    }
                    Ok::<_, BenchError>(latencies)
                })
            })
            .collect();
        let mut all = Vec::new();
        for lane in lanes {
            let latencies = lane.join().map_err(|_| BenchError::Panicked("a client"))?;
            all.extend(latencies?);
        }
        Ok::<_, BenchError>(all)
    })?;
    Ok((begin.elapsed(), latencies))
}

/// A file to which records are appended, in the directory that is removed at the end.
struct Disk(File);

impl Disk {
    fn new(directory: &Path) -> Result<Self, BenchError> {
        let path = directory.join("fdatasync");
        Ok(Self(OpenOptions::new().append(true).create(true).open(path)?))
    }

    /// Appends a record, makes it durable, and returns the microseconds that this took.
    fn write(&mut self) -> Result<f64, BenchError> {
        let begin = Instant::now();
        self.0.write_all(&[b'x'; RECORD])?;
        self.0.sync_data()?;
        Ok(begin.elapsed().as_secs_f64() * 1e6)
    }
}
