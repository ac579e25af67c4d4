//! Jobs that no host can run are refused when they are submitted, with the option and the limit, and harm no
//! other job.

use std::path::Path;

use jobtap_tests::{Manager, clean, jobtap, run, temporary};
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

#[test]
fn commands_read_no_file_without_an_end() {
    let m = Manager::start(jobtap());
    let refused = |words: &str| {
        let line = format!("exec '{}' {words} < /dev/zero", jobtap().display());
        let output = run(clean(Path::new("sh")).args(["-c", &line]).env("JOBTAP_URI", m.uri()));
        assert!(output.code != 0, "{words}: {output:?}");
        output.stderr
    };
    for words in ["sbatch /dev/zero", "sbatch"] {
        let text = refused(words);
        assert!(text.contains("the script is larger than 4 MiB"), "{words}: {text}");
    }
    for words in [
        "batch -n1 /dev/zero",
        "batch -n1",
        "job submit /dev/zero",
        "job submit",
        "submit --env-file=/dev/zero true",
        "submit --setattr=^a=/dev/zero true",
        "submit --add-file=/dev/zero true",
        "bulksubmit echo {} :::: /dev/zero",
        "config load /dev/zero",
        "R decode",
    ] {
        let text = refused(words);
        assert!(text.contains("larger than 256 MiB"), "{words}: {text}");
    }
    m.jobtap("run true").ok();
}
