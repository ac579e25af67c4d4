//! Jobs that no host can run are refused when they are submitted, with the option and the limit, and harm no
//! other job.

use jobtap_tests::{Manager, jobtap, run, temporary};
use serde_json::{Value, json};

#[test]
fn a_job_too_large_for_any_host_names_option_and_limit() {
    let m = Manager::start(jobtap());
    let runs = m.submit("sleep 600");
    m.wait(&runs, "start");
    let refused = |args: &[&str]| {
        let output = run(m.command(["submit"]).args(args));
        assert_eq!(output.code, 1, "{output:?}");
        output.stderr.trim_end().to_owned()
    };
    let absurd = ["--cores=1", "--tasks-per-core=300000000", "--output=x", "true"];
    let text = refused(&absurd);
    let words = "--tasks-per-core: 300000000 tasks on one host are more than the ";
    assert!(text.contains(words), "{text}");
    let text = refused(&["--ntasks=300000000", "true"]);
    assert!(text.contains("--ntasks: 300000000 tasks on one host are more than the "), "{text}");
    let directory = temporary();
    // The kernel lets no command have such a variable, but a jobspec can contain it.
    let spec = run(&mut m.command(["submit", "--dry-run", "true"])).ok();
    let mut spec: Value = serde_json::from_str(&spec).unwrap();
    spec["attributes"]["system"]["environment"]["A"] = json!("x".repeat(200_000));
    let file = directory.path().join("spec.json");
    std::fs::write(&file, spec.to_string()).unwrap();
    let output = run(m.command(["job", "submit"]).arg(&file));
    let words = "--env: variable A has 200002 bytes, and Linux allows 131071: pass it in a file";
    assert!(output.code == 1 && output.stderr.contains(words), "{output:?}");
    // Simulated jobs need no processes.
    let set = "--setattr=system.exec.test.run_duration=0.01s";
    let simulated = m.submit(&format!("{set} --cores=1 --tasks-per-core=300000000 true"));
    m.wait(&simulated, "clean");
    assert_eq!(m.field(&simulated, "result"), "COMPLETED");
    assert_eq!(m.jobtap("run true").code, 0);
    assert_eq!(m.field(&runs, "state"), "RUN");
}
