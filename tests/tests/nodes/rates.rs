//! What an instance over four real nodes does in a second, beside what runs steps there without it. `JOBTAP_MEASURED` is
//! the program to measure, a release build:
//!
//! ```text
//! JOBTAP_MEASURED=PATH cargo test -p jobtap-tests --test nodes -- rates --ignored --nocapture
//! ```

use std::path::PathBuf;

use jobtap_tests::flux::flux;
use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{clean, jobtap, run, temporary};

/// Functions of the scripts: `count N COMMAND` tells how many times a second N runs of it are.
const COUNT: &str = r#"
now() { date +%s%N; }
count() {
    runs=$1 what=$2; shift 2
    begin=$(now); "$@" >/dev/null; end=$(now)
    echo "$what: $((runs * 1000000000 / (end - begin))) /s"
}
each() { runs=$1; shift; for run in $(seq $runs); do "$@"; done; }
"#;

const JOBS: &str = r#"
many() { seq 4000 | "$JOBTAP" bulksubmit --quiet --wait true; }
many
count 4000 "jobs on $NODES nodes" many
for run in $(seq 50); do
    "$JOBTAP" job eventlog --format=json $("$JOBTAP" submit --wait -N$NODES -n$NODES true)
done | python3 -c '
import json, sys
times = {}
delays = []
for line in sys.stdin:
    event = json.loads(line)
    times[event["name"]] = event["timestamp"]
    if event["name"] == "start":
        delays.append(times["start"] - times["alloc"])
delays.sort()
print(f"a job on all of them, alloc to start: {delays[len(delays) // 2] * 1000:.1f} ms")
'
"#;

const STEPS: &str = r#"
each 5 srun --overlap -N4 -n4 true
count 50 'srun steps, one task' each 50 srun --overlap -N1 -n1 true
count 50 'srun steps, all nodes' each 50 srun --overlap -N4 -n4 true
"#;

const FLUX: &str = r#"
count 300 'jobs of a Flux of four brokers' flux submit --quiet --wait --cc=1-300 true
"#;

#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
fn rates_over_four_real_nodes() {
    let slurm = Installation::system();
    if let Some(what) = slurm.missing() {
        return println!("skipped: no {what}");
    }
    let measured = std::env::var_os("JOBTAP_MEASURED").map(PathBuf::from);
    let measured = measured.unwrap_or_else(|| jobtap().to_owned()).display().to_string();
    let directory = temporary();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name).display().to_string();
        std::fs::write(&path, format!("{COUNT}{text}")).unwrap();
        path
    };
    let slurm = Slurm::of_four_nodes(&slurm);
    for nodes in ["1", "4"] {
        let jobs = write("jobs", &format!("JOBTAP={measured} NODES={nodes}\n{JOBS}"));
        let size = format!("-N{nodes}");
        let words = [&size, "--ntasks-per-node=1", "--mpi=pmi2", "-c2", &measured, "start"];
        let printed = slurm.client("srun", &[&words[..], &["sh", &jobs]].concat());
        assert_eq!(printed.code, 0, "{printed:?}");
        println!("{}", printed.stdout);
    }
    let printed = slurm.client("salloc", &["-N4", "-n8", "sh", &write("steps", STEPS)]);
    assert_eq!(printed.code, 0, "{printed:?}");
    println!("{}", printed.stdout);
    if let Some(flux) = flux() {
        let mut instance = clean(&flux);
        instance.args(["start", "-s", "4", "sh"]).arg(write("flux", FLUX));
        println!("{}", run(&mut instance).ok());
    }
}
