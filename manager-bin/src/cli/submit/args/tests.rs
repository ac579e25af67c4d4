//! Tests that options have the same meaning as in Flux's commands, and that invalid ones are refused with the
//! same messages.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clap::{FromArgMatches, Parser};
use jobtap_core::jobspec::Jobspec;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Parser)]
struct Submit {
    #[command(flatten)]
    args: SubmitArgs,
    #[command(flatten)]
    copies: CopyArgs,
}

fn parse(words: &[&str]) -> Submit {
    Submit::try_parse_from(["submit"].iter().chain(words)).unwrap()
}

fn caller() -> Caller {
    Caller {
        cwd: PathBuf::from("/srv"),
        env: BTreeMap::from([("HOME".to_owned(), "/home/u".to_owned())]),
        rlimits: BTreeMap::from([("core".to_owned(), 0)]),
        now: 1000.5,
    }
}

fn jobspec(words: &[&str]) -> Value {
    let spec = parse(words).args.jobspec(&caller()).unwrap();
    Jobspec::from_value(spec.clone()).expect("the manager accepts what the options make");
    spec
}

fn refused(words: &[&str]) -> String {
    parse(words).args.jobspec(&caller()).unwrap_err().to_string()
}

fn system(words: &[&str], key: &str) -> Value {
    let mut words = words.to_vec();
    words.push("app");
    Jobspec::from_value(jobspec(&words)).unwrap().attribute(key).cloned().unwrap_or_default()
}

#[test]
fn a_plain_command_is_one_task_in_the_callers_directory() {
    assert_eq!(
        jobspec(&["echo", "hi"]),
        json!({
            "resources": [{"type": "slot", "count": 1, "label": "task",
                "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["echo", "hi"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {
                "duration": 0,
                "cwd": "/srv",
                "environment": {"HOME": "/home/u"},
                "shell": {"options": {"rlimit": {"core": 0}}},
            }},
            "version": 1,
        })
    );
}

#[test]
fn per_task_options_set_the_resources() {
    let counts = |words: &[&str]| {
        let mut words = words.to_vec();
        words.push("app");
        let counts = Jobspec::from_value(jobspec(&words)).unwrap().counts();
        (counts.nnodes, counts.nslots, counts.slot_size, counts.slot_gpus, counts.exclusive)
    };
    assert_eq!(counts(&["-n4", "-c", "2", "-g1"]), (0, 4, 2, 1, false));
    assert_eq!(counts(&["--ntasks=4", "--nodes=2"]), (2, 4, 1, 0, false));
    assert_eq!(counts(&["-N2"]), (2, 2, 1, 0, true));
    assert_eq!(counts(&["-N2", "-n2", "-x"]), (2, 2, 1, 0, true));
    assert_eq!(counts(&["-n1", "-n3"]), (0, 3, 1, 0, false));
    assert_eq!(counts(&["-n0", "-c0", "-N2"]), (2, 2, 1, 0, true), "as if not given");
}

#[test]
fn invalid_counts_are_refused_with_the_messages_of_flux() {
    assert_eq!(refused(&["-n4"]), "job command and arguments are missing");
    assert_eq!(refused(&["-nX", "a"]), "--ntasks: invalid int value 'X'");
    assert_eq!(refused(&["-N", "1.5", "a"]), "--nodes: invalid int value '1.5'");
    assert_eq!(refused(&["-c", "", "a"]), "--cores-per-task: invalid int value ''");
    assert_eq!(refused(&["-gx", "a"]), "--gpus-per-task: invalid int value 'x'");
    assert_eq!(refused(&["-n", "-1", "a"]), "task count must be a integer >= 1");
    assert_eq!(refused(&["-g", "-1", "a"]), "gpus per task must be an integer >= 0");
    assert_eq!(refused(&["-N2", "-n1", "a"]), "node count must not be greater than task count");
    assert_eq!(refused(&["-n4", "-N0", "a"]), "node count must be an integer >= 1 (if set)");
    assert_eq!(refused(&["-x", "a"]), "exclusive can only be set with a node count");
}

#[test]
fn a_taskmap_is_a_scheme_with_a_value() {
    let taskmap = |text: &str| system(&["--taskmap", text], "shell.options.taskmap");
    assert_eq!(taskmap("cyclic"), json!({"scheme": "cyclic", "value": ""}));
    assert_eq!(taskmap("CYCLIC:2"), json!({"scheme": "cyclic", "value": "2"}));
    let map = "manual:[[0,2,1,1]]";
    assert_eq!(taskmap(map), json!({"scheme": "manual", "value": "[[0,2,1,1]]"}));
    assert_eq!(refused(&["--taskmap=:1", "a"]), "Invalid taskmap URI \":1\"");
    assert_eq!(refused(&["--taskmap=", "a"]), "Invalid taskmap URI \"\"");
}

#[test]
fn resources_are_read_from_a_file_or_a_jobspec() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        format!("--resources-json={}", path.display())
    };
    let slot = json!([{"type": "slot", "label": "mine", "count": 3,
        "with": [{"type": "core", "count": 2}]}]);
    let whole = json!({"version": 1, "resources": slot});
    for (name, text) in [("resources", slot.to_string()), ("jobspec", whole.to_string())] {
        let spec = jobspec(&[&file(name, &text), "a"]);
        assert_eq!(spec["resources"], slot);
        assert_eq!(spec["tasks"][0]["slot"], "mine");
    }
    let good = file("good", &slot.to_string());
    let text = "--shape and --resources-json are mutually exclusive: use only one of them";
    assert_eq!(refused(&[&good, "--resources-shape=slot/core", "a"]), text);
    let text = "--resources-json can't be used with other resource options";
    assert_eq!(refused(&[&good, "-n1", "a"]), text);
    let bad = refused(&[&file("bad", "[1"), "a"]);
    assert!(bad.starts_with("EOF while parsing a list") && bad.contains("/bad'"), "{bad}");
    let text = refused(&[&file("text", "1"), "a"]);
    assert!(text.starts_with("expected a list of resources, or a jobspec with one: '"), "{text}");
    let missing = refused(&["--resources-json=/no/such", "a"]);
    assert_eq!(missing, "No such file or directory: '/no/such'");
}

#[test]
fn resources_are_requested_by_counts_or_as_a_shape() {
    let counts = |words: &[&str]| {
        let mut words = words.to_vec();
        words.push("app");
        let counts = Jobspec::from_value(jobspec(&words)).unwrap().counts();
        (counts.nnodes, counts.nslots, counts.slot_size, counts.ntasks)
    };
    assert_eq!(counts(&["--cores=8"]), (0, 8, 1, 8));
    assert_eq!(counts(&["--cores=8", "-N2", "--tasks-per-node=3"]), (2, 2, 4, 6));
    assert_eq!(counts(&["-N2", "--tasks-per-core=2", "--gpus-per-node=1"]), (2, 2, 1, 4));
    assert_eq!(counts(&["--shape=node=2/slot=3/core=4"]), (2, 6, 4, 6));
    assert_eq!(counts(&["--resources-shape=slot=3/core"]), (0, 3, 1, 3));
    assert_eq!(
        system(&["-N2", "--tasks-per-node=3"], "shell.options.per-resource"),
        json!({"type": "node", "count": 3})
    );
    let both = "Per-resource options can't be used with per-task options. (See --help for details)";
    assert_eq!(refused(&["--cores=8", "-n2", "a"]), both);
    assert_eq!(refused(&["-N1", "--tasks-per-node=8", "-c2", "a"]), both);
    assert_eq!(refused(&["--cores=x", "a"]), "--cores: invalid int value 'x'");
    assert_eq!(refused(&["-N1", "--tasks-per-node=-1", "a"]), "--tasks-per-node must be >= 1");
    for (words, text) in [
        (["--gpus-per-node=1", "a"].as_slice(), "--gpus-per-node requires --nodes"),
        (&["--gpus-per-node=-1", "a"], "--gpus-per-node requires --nodes"),
        (&["--gpus-per-node=0", "a"], "gpus_per_node must be specified with nnodes"),
        (&["-N1", "--gpus-per-node=-1", "a"], "gpus_per_node must be an integer >= 0"),
    ] {
        assert_eq!(refused(words), text);
    }
    assert_eq!(counts(&["-N1", "--gpus-per-node=0"]), (1, 1, 1, 1));
    assert_eq!(
        refused(&["--shape=slot/core", "-N2", "a"]),
        "--shape can't be used with other resource options"
    );
    assert_eq!(
        refused(&["--shape=slot=0/core", "a"]),
        "--shape=slot=0/core: Illegal character '0' at position 5"
    );
}

#[test]
fn a_time_limit_without_a_unit_is_in_minutes() {
    let seconds = |text: &str| system(&["-t", text], "duration").as_f64().unwrap();
    assert_eq!(seconds("10"), 600.0);
    assert_eq!(seconds("1.5"), 90.0);
    assert_eq!(seconds("0.2s"), 0.2);
    assert_eq!(seconds("11m"), 660.0);
    assert_eq!(seconds("1h"), 3600.0);
    assert_eq!(seconds("0"), 0.0);
    assert!(seconds("-0").is_sign_positive());
    for text in ["1x", "", "1h30m", "foo", "+5", "1e400"] {
        assert_eq!(refused(&["-t", text, "a"]), "invalid Flux standard duration", "{text}");
    }
    assert_eq!(refused(&["-t", "-5", "a"]), "duration must not be negative");
    for text in ["inf", "nan"] {
        assert_eq!(refused(&["-t", text, "a"]), "duration must be a normal, finite value");
    }
}

#[test]
fn names_and_queues_are_attributes() {
    assert_eq!(system(&["-q", "batch"], "queue"), "batch");
    assert_eq!(system(&["-B", "b1"], "bank"), "b1");
    assert_eq!(system(&["--job-name=n"], "job"), json!({"name": "n"}));
    assert_eq!(system(&[], "job"), Value::Null);
    assert_eq!(system(&["--cwd=/tmp"], "cwd"), "/tmp");
    assert_eq!(system(&["--cwd=sub"], "cwd"), "/srv/sub");
    assert_eq!(system(&["--setattr=cwd=/x", "--cwd=/tmp"], "cwd"), "/x");
    assert_eq!(system(&["-S", "user.tag=[1]"], "user.tag"), json!([1]));
}

#[test]
fn dependencies_and_begin_times_keep_their_order() {
    let words = [
        "--begin-time=+1m",
        "--dependency=afterok:ƒ1",
        "--begin-time=+2m",
        "--dependency=singleton",
    ];
    let mut dependencies = vec![
        json!({"scheme": "begin-time", "value": "1060.5"}),
        json!({"scheme": "afterok", "value": "ƒ1"}),
        json!({"scheme": "begin-time", "value": "1120.5"}),
        json!({"scheme": "singleton", "value": ""}),
    ];
    assert_eq!(system(&words, "dependencies"), json!(dependencies));
    dependencies.rotate_left(1);
    let words = [words[1], words[2], words[3], words[0]];
    assert_eq!(system(&words, "dependencies"), json!(dependencies));
    assert_eq!(system(&[], "dependencies"), Value::Null);
    assert_eq!(refused(&["--dependency=:x", "a"]), "Invalid dependency URI \":x\"");
    for bad in ["", "tomorrow-ish", "inf", "0", "12", "1234.5", "1e3", "2460", "1893456000"] {
        let option = format!("--begin-time={bad}");
        assert_eq!(refused(&[&option, "a"]), format!("Invalid datetime: \"{bad}\""));
    }
    for bad in ["+", "+1x", "-1x"] {
        let option = format!("--begin-time={bad}");
        assert_eq!(refused(&[&option, "a"]), "invalid Flux standard duration");
    }
    assert_eq!(refused(&["--dependency=", "a"]), "Invalid dependency URI \":\"");
    assert_eq!(
        system(&["--dependency=after:a?scheme=string&value=b%20c&type=out"], "dependencies"),
        json!([{"scheme": "string", "value": "b c", "type": "out"}])
    );
}

#[test]
fn requires_becomes_a_constraint() {
    let constraint = |words: &[&str]| system(words, "constraints");
    assert_eq!(constraint(&[]), Value::Null);
    assert_eq!(constraint(&["--requires=a,^b"]), json!({"properties": ["a", "^b"]}));
    assert_eq!(constraint(&["--requires=a", "--requires=b"]), json!({"properties": ["a", "b"]}));
    assert_eq!(
        constraint(&["--requires", "-host:n[0-3]"]),
        json!({"not": [{"hostlist": ["n[0-3]"]}]})
    );
    assert_eq!(
        constraint(&["--requires=a|b", "--requires=rank:0-3|c"]),
        json!({"and": [
            {"or": [{"properties": ["a"]}, {"properties": ["b"]}]},
            {"or": [{"ranks": ["0-3"]}, {"properties": ["c"]}]},
        ]})
    );
    // In the words of Flux, which reports it later.
    let unknown = "unknown constraint operator 'nosuch'";
    assert_eq!(refused(&["--requires=a|nosuch:x", "app"]), unknown);
    assert_eq!(
        refused(&["--requires=a", "--requires=(b", "app"]),
        "--requires='(b': Unclosed parenthesis in position 0"
    );
    let copy = parse(&["--requires=rank:{cc}", "a"]).args.copy_for(7, Copies::Cc);
    assert_eq!(copy.requires, ["rank:7"]);
}

#[test]
fn the_deprecated_scheme_after_gets_a_message() {
    let notes = |uri: &str| parse(&["--dependency", uri, "a"]).args.notes();
    assert_eq!(notes("after:1"), ["dependency scheme 'after' is deprecated, use 'afterstart'"]);
    assert!(notes("afterok:1").is_empty());
}

#[test]
fn input_and_output_become_shell_options() {
    let options = |words: &[&str]| {
        let mut options = system(words, "shell.options");
        options.as_object_mut().unwrap().shift_remove("rlimit");
        options
    };
    let words = ["--input=in.txt", "--output=out-{{id}}.txt", "--error=e", "-l", "-u"];
    assert_eq!(
        options(&words),
        json!({
            "input": {"stdin": {"type": "file", "path": "in.txt"}, "batch-timeout": 0},
            "output": {
                "stdout": {"type": "file", "path": "out-{{id}}.txt", "label": true,
                    "buffer": {"type": "none"}},
                "stderr": {"type": "file", "path": "e", "label": true,
                    "buffer": {"type": "none"}},
                "batch-timeout": 0.05,
            },
        })
    );
    assert_eq!(
        options(&["-o", "verbose", "-o", "output.mode=append"]),
        json!({"verbose": 1, "output": {"mode": "append"}})
    );
    for tasks in ["all", "0", "0-3,5", "[1-2]"] {
        let option = format!("--input={tasks}");
        assert_eq!(refused(&[&option, "a"]), "per-task input not supported for submit");
    }
}

#[test]
fn environment_rules_are_applied_in_order() {
    let words = ["--env-remove=*", "--env=A=$HOME", "--env=B={{x}}"];
    assert_eq!(system(&words, "environment"), json!({"A": "/home/u"}));
    assert_eq!(system(&words, "shell.options.env-expand"), json!({"B": "{{x}}"}));
    assert_eq!(refused(&["--env=A=$X", "a"]), "--env: Variable 'X' not found in A=$X");
}

#[test]
fn attributes_can_be_read_from_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f.json"), "[1]").unwrap();
    let caller = Caller { cwd: dir.path().to_owned(), ..caller() };
    let args = parse(&["--setattr=^k=f.json", "app"]).args;
    assert_eq!(args.jobspec(&caller).unwrap()["attributes"]["system"]["k"], json!([1]));
}

#[test]
fn urgency_is_a_number_or_a_name() {
    let urgency = |text: &str| parse(&["--urgency", text, "a"]).args.urgency();
    assert_eq!(parse(&["a"]).args.urgency(), Ok(16));
    assert_eq!(urgency("hold"), Ok(0));
    assert_eq!(urgency("default"), Ok(16));
    assert_eq!(urgency("expedite"), Ok(31));
    assert_eq!(urgency("7"), Ok(7));
    // The manager checks the range.
    assert_eq!(urgency("99"), Ok(99));
    assert_eq!(urgency("-1"), Ok(-1));
    assert_eq!(urgency("Hold"), Err(ArgError::Urgency("Hold".to_owned())));
}

#[test]
fn flags_of_all_options_are_combined() {
    let flags = |words: &[&str]| parse(words).args.job_flags().map_err(|e| e.to_string());
    assert_eq!(flags(&["a"]), Ok(Flags::NONE));
    assert_eq!(
        flags(&["--flags=debug,waitable", "--flags=novalidate", "a"]),
        Ok(Flags::DEBUG | Flags::WAITABLE | Flags::NOVALIDATE)
    );
    assert_eq!(flags(&["--flags=debug,x", "a"]), Err("--flags: Unknown flag x".to_owned()));
}

#[test]
fn options_end_at_the_first_word_of_the_command() {
    let args = parse(&["-n2", "sh", "-c", "exit 1", "--quiet", "-n3"]).args;
    assert_eq!(args.command, ["sh", "-c", "exit 1", "--quiet", "-n3"]);
    assert_eq!(args.ntasks.as_deref(), Some("2"));
    assert!(!args.quiet);
    let args = parse(&["-vv", "-vxq", "b", "--", "-odd", "--", "x"]).args;
    assert_eq!(args.command, ["-odd", "--", "x"]);
    assert_eq!((args.verbose, args.exclusive, args.queue.as_deref()), (3, true, Some("b")));
}

#[test]
fn unknown_and_abbreviated_options_are_refused() {
    for word in ["--nosuch", "--ntask=3", "-Z"] {
        let error = Submit::try_parse_from(["submit", word, "app"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{word}");
    }
}

#[test]
fn copies_replace_cc_in_every_option() {
    let words = [
        "--urgency={cc}0",
        "--job-name=n{cc}",
        "--dependency=afterok:{cc}",
        "--env=X={cc}",
        "sh",
        "-c",
        "exit {cc} {{cc}} ${c} {cc}",
    ];
    let args = parse(&words).args.copy_for(7, Copies::Cc);
    assert_eq!(args.urgency(), Ok(70));
    assert_eq!(args.command, ["sh", "-c", "exit 7 {{cc}} ${c} 7"]);
    let spec = Jobspec::from_value(args.jobspec(&caller()).unwrap()).unwrap();
    assert_eq!(spec.name(), Some("n7"));
    assert_eq!(spec.dependencies().unwrap()[0].value, "7");
    let env = spec.environment().unwrap();
    assert_eq!((&env["X"], &env["FLUX_JOB_CC"]), (&json!("7"), &json!("7")));
    let args = parse(&["echo", "{cc}"]).args.copy_for(7, Copies::Bcc);
    let spec = Jobspec::from_value(args.jobspec(&caller()).unwrap()).unwrap();
    assert!(!spec.environment().unwrap().contains_key("FLUX_JOB_CC"));
    assert_eq!(spec.command().collect::<Vec<_>>(), ["echo", "7"]);
}

#[test]
fn signal_becomes_a_shell_option() {
    let option = |text: &str| system(&[text], "shell.options.signal");
    assert_eq!(option("--signal=USR2@5m"), json!({"signum": 12, "timeleft": 300.0}));
    assert_eq!(option("--signal=@30"), json!({"signum": 10, "timeleft": 30.0}));
    assert_eq!(option("--signal=SIGINT"), json!({"signum": 2, "timeleft": 60.0}));
    assert_eq!(refused(&["--signal=FOO@1", "a"]), "--signal=FOO@1: signal 'FOO' is invalid");
    assert_eq!(refused(&["--signal=int", "a"]), "--signal=int: signal 'int' is invalid");
    assert_eq!(refused(&["--signal=0@1", "a"]), "--signal=0@1: signal must be > 0");
    assert_eq!(option("--signal=40"), json!({"signum": 40, "timeleft": 60.0}));
    assert_eq!(option("--signal=RTMIN@1"), json!({"signum": 34, "timeleft": 1.0}));
    assert_eq!(refused(&["--signal=65", "a"]), "--signal=65: signal '65' is invalid");
    assert!(refused(&["--signal=@x", "a"]).starts_with("--signal=@x: "));
}

#[test]
fn cc_and_bcc_exclude_each_other() {
    let copies = |words: &[&str]| {
        let copies = parse(words).copies;
        copies.copies().map(|c| c.map(|(kind, ids)| (kind, ids.to_owned())))
    };
    assert_eq!(copies(&["a"]), Ok(None));
    assert_eq!(copies(&["--cc=1-3", "a"]), Ok(Some((Copies::Cc, "1-3".to_owned()))));
    assert_eq!(copies(&["--bcc=1", "a"]), Ok(Some((Copies::Bcc, "1".to_owned()))));
    let both = copies(&["--cc=1", "--bcc=1", "a"]).unwrap_err().to_string();
    assert_eq!(both, "specify only one of --cc or --bcc");
    let args = parse(&["--wait", "--wait-event=clean", "--watch", "a"]).copies;
    assert!(args.wait && args.watch);
    assert_eq!(args.wait_event.as_deref(), Some("clean"));
}

#[test]
fn the_current_caller_has_directory_and_time() {
    let caller = Caller::current().unwrap();
    assert!(caller.cwd.is_absolute());
    assert!(caller.now > 1.6e9);
}

#[test]
fn the_definition_of_the_options_is_valid() {
    <Submit as clap::CommandFactory>::command().debug_assert();
    let matches = <Submit as clap::CommandFactory>::command().get_matches_from(["submit", "a"]);
    assert!(Submit::from_arg_matches(&matches).is_ok());
}

proptest! {
    #[test]
    fn any_options_make_a_jobspec_or_a_message(
        ntasks in "-?[0-9]{0,3}|\\PC{0,3}",
        time in "[0-9.]{0,3}[a-z]{0,2}|\\PC{0,3}",
        setattr in "[a-z.^]{0,6}(=\\PC{0,6})?",
        setopt in "[a-z.]{0,6}(=\\PC{0,6})?",
        dependency in "\\PC{0,8}",
        begin in "\\PC{0,5}",
        text in "[{}c]{0,8}",
    ) {
        let options = [format!("--dependency={dependency}"), format!("--begin-time={begin}")];
        let parsed = parse(&[&options[0], &options[1], "a"]).args;
        let args = SubmitArgs {
            ntasks: Some(ntasks),
            time_limit: Some(time),
            setattr: vec![setattr],
            setopt: vec![setopt],
            command: vec!["a".to_owned(), text],
            ..parsed
        };
        let args = args.copy_for(3, Copies::Cc);
        if let Err(error) = args.jobspec(&caller()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
