//! A handler that never returns fails its test, and the failure names the handler.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};

#[derive(Default)]
struct Loops;

#[jobtap_plugin(name = "loops")]
impl Loops {
    #[on("job.validate")]
    fn validate(&self) -> Result<(), Reject> {
        loop {
            std::hint::spin_loop();
        }
    }
}

#[test]
#[ignore = "loops: the test below runs it in a process of its own"]
fn with_a_handler_that_loops() {
    let mut m = TestManager::new().plugin::<Loops>().start();
    let _ = m.submit(TestJob::new());
}

#[test]
fn a_handler_that_loops_fails_its_test() {
    let begun = Instant::now();
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "hanging::with_a_handler_that_loops"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = loop {
        match test.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            None => {
                test.kill().unwrap();
                break test.wait().unwrap();
            }
        }
    };
    let mut text = String::new();
    test.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(101), "{text}");
    let expected = "test hanging::with_a_handler_that_loops: loops: job.validate: job ";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("has not returned for 10 s"), "{text}");
}
