//! Requests from scripts, the environment and the command line, up to the jobspec.

use serde_json::json;

use super::*;

/// The request of words that ask for a job.
fn asked(words: &[String], caller: &Caller) -> Result<Request, CliError> {
    match request(words, caller)? {
        Asked::Job(request) => Ok(*request),
        Asked::Help | Asked::Version => panic!("{words:?}"),
    }
}

/// The jobspecs for a script and the words of a command line.
fn jobspec_of(script: &str, words: &str, env: &[(&str, &str)]) -> Result<Value, CliError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.sh"), script).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let caller = Caller { cwd: dir.path().into(), env: env.collect(), ..Caller::default() };
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let request = asked(&words, &caller)?;
    let jobspec = valid_jobspec(&request, &caller)?;
    Ok(jobspec.unwrap())
}

fn system(jobspec: &Value) -> &Value {
    &jobspec["attributes"]["system"]
}

const SCRIPT: &str = "#!/bin/sh\n#SBATCH -p long -t 10\n#SBATCH -n 4\necho $1\n";

#[test]
fn the_command_line_comes_before_the_environment_and_the_script() {
    let of = |words: &str, env| {
        let jobspec = jobspec_of(SCRIPT, words, env).unwrap();
        let system = system(&jobspec);
        (system["queue"].clone(), system["duration"].clone())
    };
    assert_eq!(of("job.sh", &[]), (json!("long"), json!(600)));
    let variables = &[("SBATCH_PARTITION", "short"), ("SBATCH_TIMELIMIT", "5")];
    assert_eq!(of("job.sh", variables), (json!("short"), json!(300)));
    assert_eq!(of("-p debug job.sh", variables), (json!("debug"), json!(300)));
}

#[test]
fn a_script_becomes_a_job_that_runs_it_once() {
    let jobspec = jobspec_of(SCRIPT, "-o out-%x job.sh arg", &[("USER", "a")]).unwrap();
    let description = JobDescriptor::from_jobspec(&jobspec);
    assert_eq!(description.script.as_deref(), Some(SCRIPT));
    assert_eq!(description.argv.len(), 2);
    assert!(description.argv[0].ends_with("/job.sh") && description.argv[1] == "arg");
    assert_eq!(description.num_tasks, Some(4));
    let system = system(&jobspec);
    assert_eq!(system["job"]["name"], "job.sh");
    let cwd = system["cwd"].as_str().unwrap();
    let path = format!("{cwd}/out-{{{{name}}}}");
    assert_eq!(system["shell"]["options"]["output"]["stdout"]["path"], path);
    assert_eq!(system["shell"]["options"]["env-expand"]["SLURM_JOB_ID"], "{{id.dec}}");
    assert_eq!(system["environment"]["SLURM_JOB_PARTITION"], "long");
    // What isn't elsewhere in the jobspec: the name of the script, and what was given and what is a default. The tasks
    // were given; account, QOS and wckey are defaults.
    let flags = 1 << 14 | 1 << 25 | 1 << 27 | 1 << 28;
    assert_eq!(system["slurm"], json!({ "argv": description.argv, "bitflags": flags }));
}

#[test]
fn a_wrapped_command_is_a_script() {
    let jobspec = jobspec_of("", "--wrap hostname", &[]).unwrap();
    let script = JobDescriptor::from_jobspec(&jobspec).script.unwrap();
    assert!(script.starts_with("#!/bin/sh\n") && script.ends_with("\nhostname\n"), "{script}");
    assert_eq!(system(&jobspec)["job"]["name"], "wrap");
}

#[test]
fn the_elements_of_an_array_share_a_jobspec() {
    let jobspec = jobspec_of(SCRIPT, "-a 3-9:2%2 job.sh", &[]).unwrap();
    let environment = &system(&jobspec)["environment"];
    let of = |name: &str| environment[name].as_str().unwrap().to_owned();
    assert_eq!(
        (of("SLURM_ARRAY_TASK_MIN"), of("SLURM_ARRAY_TASK_COUNT")),
        ("3".into(), "4".into())
    );
    assert_eq!((of("SLURM_ARRAY_TASK_MAX"), of("SLURM_ARRAY_TASK_STEP")), ("9".into(), "2".into()));
    let options = &system(&jobspec)["shell"]["options"];
    let path = &options["output"]["stdout"]["path"];
    assert_eq!(path, "slurm-{{array.id.dec}}_{{array.index}}.out");
    assert_eq!(options["env-expand"]["SLURM_ARRAY_TASK_ID"], "{{array.index}}");
    assert_eq!(options["env-expand"]["SLURM_ARRAY_JOB_ID"], "{{array.id.dec}}");
    let slurm = &system(&jobspec)["slurm"];
    let numbers = ["array_task_cnt", "array_task_min", "array_task_max", "array_task_step"];
    assert_eq!(numbers.map(|name| slurm[name].as_u64().unwrap()), [4, 3, 9, 2]);
    assert_eq!((slurm.get("array_job_id"), slurm.get("array_task_id")), (None, None));
    let jobspec = jobspec_of(SCRIPT, "-a 3 -o %A_%4a-%%a-%j job.sh", &[]).unwrap();
    let path = system(&jobspec)["shell"]["options"]["output"]["stdout"]["path"].as_str().unwrap();
    let name = path.rsplit_once('/').unwrap().1;
    assert_eq!(name, "{{array.id.dec}}_{{array.index.4}}-%a-{{id.dec}}");
}

#[test]
fn files_are_relative_to_the_working_directory_of_the_job() {
    let path = |options: &str, stream: &str| {
        let jobspec = jobspec_of(SCRIPT, &format!("{options} job.sh"), &[]).unwrap();
        let output = &system(&jobspec)["shell"]["options"]["output"];
        output[stream]["path"].as_str().unwrap().to_owned()
    };
    assert_eq!(path("-D /work -o out-%j.txt", "stdout"), "/work/out-{{id.dec}}.txt");
    assert_eq!(path("-D /work -e /var/err", "stderr"), "/var/err");
    assert_eq!(path("-o None", "stdout"), "/dev/null");
}

#[test]
fn propagate_chooses_resource_limits() {
    let dir = tempfile::tempdir().unwrap();
    let all = ["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "rss", "stack"];
    let rlimits = all.iter().chain(["rttime"].iter()).map(|name| ((*name).to_owned(), 5)).collect();
    let caller = Caller { cwd: dir.path().into(), rlimits, ..Caller::default() };
    let limits = |words: &str| {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let request = asked(&words, &caller)?;
        let jobspec = valid_jobspec(&request, &caller)?.unwrap();
        Ok::<Value, CliError>(system(&jobspec)["shell"]["options"]["rlimit"].clone())
    };
    let named = |names: &[&str]| {
        let entries = names.iter().map(|name| ((*name).to_owned(), json!(5)));
        Ok(entries.collect::<serde_json::Map<_, _>>().into())
    };
    // Without the option, limits that are privileges on this host stay here.
    let usual: Vec<&str> = all.into_iter().filter(|name| *name != "memlock").collect();
    assert_eq!(limits("--wrap x"), named(&usual));
    assert_eq!(limits("--propagate --wrap x"), named(&all));
    assert_eq!(limits("--propagate=ALL --wrap x"), named(&all));
    assert_eq!(limits("--propagate=NONE --wrap x"), Ok(Value::Null));
    assert_eq!(limits("--propagate=nofile,CORE --wrap x"), named(&["core", "nofile"]));
    let refused = limits("--propagate=NOFIL --wrap x").unwrap_err().text;
    assert!(
        refused.starts_with("--propagate: unknown limit 'NOFIL': use ALL, NONE or AS"),
        "{refused}"
    );
}

#[test]
fn options_without_effect_are_named_once() {
    let words = ["--hint=multithread", "--get-user-env", "--hint=compute_bound", "--wrap=x"];
    let request = asked(&words.map(str::to_owned), &Caller::default()).unwrap();
    assert_eq!(request.warnings, ["warning: --hint, --get-user-env have no effect here"]);
}

#[test]
fn the_elements_of_an_array_have_its_dependencies() {
    let words = ["-a", "1-2%1", "-d", "afterok:5?afterok:6", "--wrap=x"];
    let caller = Caller::default();
    let request = asked(&words.map(str::to_owned), &caller).unwrap();
    let jobspec = valid_jobspec(&request, &caller).unwrap().unwrap();
    let expected = json!([{"scheme": "any-of", "value": "afterok:5|afterok:6"}]);
    assert_eq!(system(&jobspec)["dependencies"], expected);
}

#[test]
fn every_option_makes_a_valid_jobspec() {
    for words in [
        "-N2 -n8 --gres=gpu:1 --exclusive",
        "-N2-4 --ntasks-per-node=3 -c2 --mem=4G",
        "-n4 -G2 -L m:2 -d afterok:5,singleton --begin=now+1hour --nice=10 --comment=x",
        "-C a&(b|c) -w n[1-2] -x n3 --reservation=r --requeue --mail-type=ALL --mail-user=me",
        "-H -A acct -q high --wckey=k --signal=USR1@60 --open-mode=append --export=NONE",
        "--priority=1000 --mincpus=4 --tmp=1G --contiguous --switches=2 --hint=nomultithread",
    ] {
        let jobspec = jobspec_of(SCRIPT, &format!("{words} job.sh"), &[]);
        assert!(jobspec.is_ok(), "{words}: {jobspec:?}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let refused = |script: &str, words: &str| jobspec_of(script, words, &[]).unwrap_err().text;
    assert_eq!(refused(SCRIPT, "--tiem=5 job.sh"), "unknown option --tiem: did you mean --time?");
    let wrong = "#!/bin/sh\n#SBATCH --partition=a --tiem 5\n";
    assert_eq!(refused(wrong, "job.sh"), "job.sh:2: unknown option --tiem: did you mean --time?");
    let wrong = "#!/bin/sh\n#SBATCH -t 5m\n";
    assert!(refused(wrong, "job.sh").starts_with("job.sh:2: -t: invalid time '5m'"));
    assert_eq!(refused(SCRIPT, "none.sh"), "none.sh: No such file or directory");
    assert!(refused(SCRIPT, "--wrap x job.sh").contains("--wrap can't be used with a script"));
    assert!(refused("#!/bin/sh\n#SBATCH --wrap=x\n", "job.sh").contains("can't be wrapped"));
    let variable = jobspec_of(SCRIPT, "job.sh", &[("SBATCH_TIMELIMIT", "x")]).unwrap_err().text;
    assert!(variable.starts_with("SBATCH_TIMELIMIT: invalid time 'x'"));
    assert!(refused(SCRIPT, "-C a&& job.sh").contains("a&&"));
}
