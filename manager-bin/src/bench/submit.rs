//! Submissions over the socket, each answered when it is durable: by one client, by many, and many at once by one.
//!
//! The jobs wait for resources that another job has. Beside the manager the disk is measured, since no durable
//! answer can come sooner than it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::connection::Submissions;
use super::figures::{Found, quantile};
use super::process::{Manager, ManagerSetup};
use super::{BenchError, CORES, document, one_host};

/// The number of clients that submit at the same time.
const CLIENTS: u64 = 64;

/// How many times the disk is measured: before, between and after the submissions.
const WRITES: usize = 150;

/// What is appended each time, about what a submission writes.
const RECORD: usize = 4096;

/// No more is written to the disk after this time.
const LONGEST: Duration = Duration::from_secs(3);

/// Measures it: `jobs` at once, half as many by many clients, a tenth one by one.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let setup = ManagerSetup { config: one_host(), inactive: 0, pending: 0 };
    let manager = Manager::start(&setup)?;
    let directory = std::env::temp_dir();
    let mut disk = fdatasyncs(&directory)?;
    let mut found = Found::default();

    let mut client = manager.connect()?;
    client.submit_all(&Submissions::of(document(0.0, u64::from(CORES), 0))?, 1)?;
    let submissions = Submissions::simulated(60.0)?;

    let single = (jobs / 10).max(1);
    let (rate, mut one) = by_clients(&manager, &submissions, 1, single)?;
    rates(&mut found, "submit.one", single, rate, &mut one, "one client, one job after the other");
    disk.extend(fdatasyncs(&directory)?);

    let each = (jobs / 2).div_ceil(CLIENTS);
    let (rate, mut many) = by_clients(&manager, &submissions, CLIENTS, each)?;
    let text = format!("{CLIENTS} clients at once, each one job after the other");
    rates(&mut found, "submit.clients", each * CLIENTS, rate, &mut many, &text);

    let begin = Instant::now();
    client.submit_all(&submissions, jobs)?;
    let rate = jobs as f64 / begin.elapsed().as_secs_f64();
    let text = "one client that waits for no answer before the next request";
    found.more("submit.bulk.rate", jobs, rate, "jobs/s", text);
    disk.extend(fdatasyncs(&directory)?);
    manager.end()?;

    let sync = quantile(&mut disk, 0.5);
    found.less("submit.fdatasync.p50", jobs, sync, "us", "the disk alone: append 4 KiB, fdatasync");
    found.less("submit.fdatasync.p99", jobs, quantile(&mut disk, 0.99), "us", "");
    let text = "the median of one client / that of fdatasync";
    found.less("submit.one.fdatasyncs", single, quantile(&mut one, 0.5) / sync, "", text);
    let text = format!("the p99 of {CLIENTS} clients / the median of fdatasync");
    found.less(
        "submit.clients.fdatasyncs",
        each * CLIENTS,
        quantile(&mut many, 0.99) / sync,
        "",
        &text,
    );
    Ok(found)
}

/// Adds the rate and the quantiles of latencies.
fn rates(found: &mut Found, name: &str, jobs: u64, rate: f64, latencies: &mut [f64], text: &str) {
    found.more(&format!("{name}.rate"), jobs, rate, "jobs/s", text);
    for (quantile_name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let latency = quantile(latencies, share);
        found.less(
            &format!("{name}.{quantile_name}"),
            jobs,
            latency,
            "us",
            "from request to answer",
        );
    }
}

/// Lets clients submit jobs, each after the answer to the one before, and returns the rate and the latencies.
fn by_clients(
    manager: &Manager,
    submissions: &Submissions,
    clients: u64,
    each: u64,
) -> Result<(f64, Vec<f64>), BenchError> {
    let connections =
        (0..clients).map(|_| manager.connect()).collect::<Result<Vec<_>, BenchError>>()?;
    let begin = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let lanes: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                scope.spawn(move || {
                    let mut latencies = Vec::new();
                    let mut line = String::new();
                    for number in 1..=each {
                        line.clear();
                        submissions.write(number, &mut line);
                        let sent = Instant::now();
                        connection.send(&line)?;
                        connection.response()?;
                        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
                    }
                    Ok::<_, BenchError>(latencies)
                })
            })
            .collect();
        let mut all = Vec::new();
        for lane in lanes {
            let latencies = lane.join().map_err(|_| BenchError::other("a client has panicked"))?;
            all.extend(latencies?);
        }
        Ok::<_, BenchError>(all)
    })?;
    Ok(((clients * each) as f64 / begin.elapsed().as_secs_f64(), latencies))
}

/// Appends records to a file, each made durable, and returns the microseconds that each took.
fn fdatasyncs(directory: &Path) -> Result<Vec<f64>, BenchError> {
    let path = directory.join("fdatasync");
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    let (record, begin) = ([b'x'; RECORD], Instant::now());
    let mut times = Vec::new();
    while times.len() < WRITES && (times.is_empty() || begin.elapsed() < LONGEST) {
        let each = Instant::now();
        file.write_all(&record)?;
        file.sync_data()?;
        times.push(each.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    std::fs::remove_file(&path)?;
    Ok(times)
}
