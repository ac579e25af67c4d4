//! Measures how many jobs a shepherd starts and reaps. Run by hand, in release mode: `cargo test
//! --release -p jobtap-daemon exec::tests::speed -- --ignored --nocapture`

use super::*;

const JOBS: u64 = 5000;

fn report(what: &str, begin: Instant) {
    let rate = JOBS as f64 / begin.elapsed().as_secs_f64();
    println!("{what}: {rate:.0} per second");
}

#[test]
#[ignore = "a measurement"]
fn true_jobs_per_second() {
    let begin = Instant::now();
    for _ in 0..JOBS {
        assert!(Command::new("/bin/true").env_clear().status().unwrap().success());
    }
    report("bare spawn and wait, one by one", begin);

    for window in [1, 2, 4, 64] {
        let begin = Instant::now();
        let mut running = std::collections::VecDeque::new();
        for _ in 0..JOBS {
            running.push_back(Command::new("/bin/true").env_clear().spawn().unwrap());
            if running.len() >= window {
                running.pop_front().unwrap().wait().unwrap();
            }
        }
        running.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
        report(&format!("bare spawn and wait, {window} at once"), begin);
    }

    let site = Site::new();
    let manager = site.manager();
    for (round, window) in (0..).zip([1, 2, 4, 64, JOBS]) {
        let begin = Instant::now();
        let (mut sent, mut done) = (0, 0);
        while done < JOBS {
            while sent < JOBS && sent - done < window {
                let command = vec!["true".to_owned()];
                let id = round * JOBS + sent + 1;
                manager.executor.start(StartJob { command, ..site.job(id, 1, "") });
                sent += 1;
            }
            if let ExecEvent::Released { id, .. } = manager.next() {
                manager.executor.command(JobCommand::Ack { id });
                done += 1;
            }
        }
        report(&format!("jobs of one shepherd, {window} at once"), begin);
    }
    manager.end();
}
