//! How an instance starts, and what keeps it from starting.

use std::io::Read;
use std::process::Stdio;

use jobtap_tests::nodes::launch;
use jobtap_tests::{clean, jobtap, run};

#[test]
fn two_tasks_on_one_host_are_refused() {
    let names = ["n1", "n2", "n1"].map(str::to_owned);
    let (mut all, _) = launch(&names, &["start", "true"], |_, _| {});
    let mut first = all.remove(0);
    let mut said = String::new();
    first.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("tasks 0 and 2 are both on n1"), "{said}");
}

#[test]
fn the_program_of_the_first_task_runs_on_the_nodes_of_all() {
    let names = ["n1", "n2"].map(str::to_owned);
    let words = ["start", "jobtap", "run", "-N2", "-n2", "sh", "-c", "exit 3"];
    let codes: Vec<_> = launch(&names, &words, |_, _| {})
        .0
        .into_iter()
        .map(|mut process| process.wait().unwrap().code())
        .collect();
    assert_eq!(codes, [Some(3), Some(0)]);
}

#[test]
fn a_step_without_pmi_says_how_to_start_it() {
    let mut command = clean(jobtap());
    command.args(["start", "true"]).stdin(Stdio::null());
    command.env("SLURM_STEP_NUM_TASKS", "4").env("SLURM_PROCID", "2").env_remove("PMI_FD");
    let refused = run(&mut command);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("task 2 of a step of 4"), "{refused:?}");
    assert!(refused.stderr.contains("srun --mpi=pmi2"), "{refused:?}");
}

#[test]
fn a_stranger_is_not_heard() {
    let nodes = jobtap_tests::nodes::Nodes::start(2);
    let saved = std::fs::read_to_string(nodes.directory().join("state/nodes.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let address = saved["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    for sent in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], b"n{\"op\":\"join\"}\n"]
    {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(sent).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 64, "an alert of TLS at most: {answer:?}");
    }
    nodes.jobtap("run -N2 -n2 true").ok();
}
