//! The banks of flux-accounting in the laboratory: an export, a month's jobs, and two sets of weights.

use std::path::PathBuf;

use jobtap_tests::{Output, clean, probe_manager, run};
use serde_json::Value;

/// Two users: the one with the higher fair share submits last.
const ASSOCIATIONS: &str = "\
creation_time,active,username,userid,bank,default_bank,fairshare,max_running_jobs,max_active_jobs,max_nodes,\
max_cores,queues,projects,default_project,max_sched_jobs
1,1,ann,5001,A,A,0.9,99,999,2147483647,2147483647,,*,*,2147483647
1,1,bob,5002,B,B,0.1,99,999,2147483647,2147483647,,*,*,2147483647
";

/// One job has the machine, and then both users want it.
const TRACE: &str = "\
JobIDRaw|User|UID|Submit|Start|End|TimelimitRaw|NNodes|AllocCPUS|ReqCPUS
1|bob|5002|1000|1000|1100|10|1|4|4
2|bob|5002|1001|1100|1200|10|1|4|4
3|ann|5001|1002|1200|1300|10|1|4|4
4|cat|5003|1003|1300|1400|10|1|4|4
";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("accounting")).unwrap();
        let tables = [
            ("association", ASSOCIATIONS),
            ("bank", "bank_id,bank,active,priority\n1,A,1,0\n2,B,1,5\n"),
            (
                "queue",
                "queue,min_nodes_per_job,max_nodes_per_job,max_time_per_job,priority,max_running_jobs,\
                 max_nodes_per_assoc,max_sched_jobs,max_sched_nodes_per_assoc,max_sched_cores_per_assoc\n",
            ),
            ("project", "project_id,project\n1,*\n"),
            ("priority_factor_weight", "factor,weight\nfairshare,100000\nbank,0\n"),
            ("config", "key,value\ndeny_unknown_queues,false\n"),
        ];
        for (table, text) in tables {
            place.write(&format!("accounting/{table}_table.csv"), text);
        }
        let table = "[job-manager]\nplugins = [{ load = \"mf_priority\" }]\n\n\
                     [plugins.mf_priority]\nconfig-file = \"accounting\"\n";
        place.write("old.toml", table);
        place.write("new.toml", &format!("{table}weights = {{ fairshare = 1, bank = 1000 }}\n"));
        place.write("month.txt", TRACE);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, words: &str) -> Output {
        let mut command = clean(probe_manager());
        command.current_dir(self.0.path()).args(words.split(' '));
        run(&mut command)
    }
}

#[test]
fn two_sets_of_weights_are_compared_on_a_months_jobs() {
    let place = Place::new();
    let words =
        "simulate --trace month.txt --nodes 1x4 --config old.toml --compare new.toml -o out";
    let shown = place.run(words).ok();
    assert!(
        shown.contains("cannot find user/bank or user/default bank entry for uid: 5003"),
        "{shown}"
    );
    let summary = std::fs::read_to_string(place.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let wait = |policy: usize, user: usize| {
        summary.pointer(&format!("/policies/{policy}/metrics/users/{user}/wait/max")).cloned()
    };
    // Ann goes first by her fair share, and Bob by his bank.
    assert_eq!((wait(0, 0), wait(0, 1)), (Some(98.0.into()), Some(199.0.into())));
    assert_eq!((wait(1, 0), wait(1, 1)), (Some(198.0.into()), Some(99.0.into())));
}

#[test]
fn a_set_of_weights_that_is_worse_for_a_user_does_not_pass() {
    let place = Place::new();
    let words = "policy diff old.toml new.toml --trace month.txt --nodes 1x4 --min-jobs 1";
    let refused = place.run(words);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stdout.contains("median wait of user 5001: "), "{refused:?}");
    let same =
        place.run("policy diff old.toml old.toml --trace month.txt --nodes 1x4 --min-jobs 1");
    assert_eq!(same.code, 0, "{same:?}");
}

#[test]
fn a_table_that_is_missing_is_named() {
    let place = Place::new();
    std::fs::remove_file(place.path("accounting/bank_table.csv")).unwrap();
    let refused = place.run("simulate --trace month.txt --nodes 1x4 --config old.toml");
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("accounting/bank_table.csv: No such file"), "{refused:?}");
}
