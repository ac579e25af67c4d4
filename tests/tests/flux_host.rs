//! Plugins inside a real Flux: files that wrapper crates make of unchanged plugin crates, loaded by a broker that runs
//! jobs.
//!
//! `.ci/flux` finds Flux; without it each test says that it was skipped. Each test runs a shell script as the initial
//! program of an instance of its own.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use jobtap_tests::flux::flux;
use jobtap_tests::workspace;
use tempfile::TempDir;

/// The longest that an instance may run, in seconds.
const LONGEST: &str = "240";

/// Builds a file with these plugins, once, and returns its path.
fn file(plugins: &[&str]) -> PathBuf {
    static FILES: OnceLock<Mutex<BTreeMap<String, PathBuf>>> = OnceLock::new();
    let name = plugins.join("-");
    let mut files =
        FILES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = files.get(&name) {
        return file.clone();
    }
    let exe = std::env::current_exe().unwrap();
    let target = exe.ancestors().nth(3).unwrap().join("tmp/flux-host");
    let krate = target.join(format!("wrappers/{name}"));
    std::fs::create_dir_all(krate.join("src")).unwrap();
    let root = workspace();
    let crates: &[(&str, &str)] = &[
        ("deadline", "examples/deadline"),
        ("hosted", "tests/plugins/hosted"),
        ("mf-priority", "plugins/mf-priority"),
        ("cray-pmi-bootstrap", "plugins/cray-pmi-bootstrap"),
        ("cray-slingshot", "plugins/cray-slingshot"),
        ("dws", "plugins/dws"),
    ];
    let mut manifest = format!(
        "[package]\nname = \"wrapper-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n[workspace]\n\n[dependencies]\n\
         jobtap-flux = {{ path = \"{}\" }}\n",
        root.join("jobtap-flux").display()
    );
    let mut uses = String::new();
    for (krate, folder) in crates {
        writeln!(manifest, "{krate} = {{ path = \"{}\" }}", root.join(folder).display()).unwrap();
        writeln!(uses, "use {} as _;", krate.replace('-', "_")).unwrap();
    }
    let quoted: Vec<String> = plugins.iter().map(|plugin| format!("{plugin:?}")).collect();
    let source = format!("{uses}jobtap_flux::export!([{}]);\n", quoted.join(", "));
    std::fs::write(krate.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(krate.join("src/lib.rs"), source).unwrap();
    std::fs::copy(root.join("Cargo.lock"), krate.join("Cargo.lock")).unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline"])
        .current_dir(&krate)
        .env("CARGO_TARGET_DIR", target.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cargo build of {name} failed");
    let built = format!("target/debug/libwrapper_{}.so", name.replace('-', "_"));
    let file = target.join(built);
    files.insert(name, file.clone());
    file
}

/// A directory with files of plugins, in which instances run.
struct Place {
    directory: TempDir,
    flux: PathBuf,
}

/// What a script printed.
struct Printed {
    out: String,
    err: String,
}

impl Place {
    /// A place with these files, or nothing when there is no Flux.
    fn new(files: &[&[&str]]) -> Option<Self> {
        let place = Self { directory: jobtap_tests::temporary(), flux: flux()? };
        for plugins in files {
            let to = place.path(&format!("{}.so", plugins.join("-")));
            std::fs::copy(file(plugins), to).unwrap();
        }
        place.configure("");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the instance's configuration.
    fn configure(&self, more: &str) {
        let host = hostname();
        let text = format!(
            "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"{host}\"\ncores = \"0-7\"\n{more}"
        );
        std::fs::create_dir_all(self.path("conf")).unwrap();
        std::fs::write(self.path("conf/test.toml"), text).unwrap();
    }

    /// Runs a script in an instance.
    #[track_caller]
    fn run(&self, script: &str) -> Printed {
        self.run_with(&[], script)
    }

    /// Runs a script in an instance that is started with these options.
    #[track_caller]
    fn run_with(&self, options: &[&str], script: &str) -> Printed {
        let (code, printed) = self.start(options, script);
        let Printed { out, err } = &printed;
        let has_ended = !matches!(code, None | Some(128..));
        assert!(has_ended, "the broker died ({code:?}):\n{out}\n{err}");
        printed
    }

    /// Starts an instance for a script. Returns its exit code, and what was printed.
    #[track_caller]
    fn start(&self, options: &[&str], script: &str) -> (Option<i32>, Printed) {
        let functions = r#"
# Fails when it doesn't become true in a while.
until_true() { for i in $(seq 600); do eval "$1" && return 0; sleep 0.05; done; echo "never: $1" >&2; return 1; }
names() { flux job eventlog "$1" | awk '{print $2}' | tr '\n' ' '; echo; }
# A request to a plugin, and its response.
ask() { flux python -c 'import flux, json, sys
try:
    print(json.dumps(flux.Flux().rpc(sys.argv[1], json.loads(sys.argv[2])).get()))
except OSError as error:
    print(f"error {error.errno}: {error.strerror}")' "job-manager.$1" "${2-{\}}"; }
TEST="--setattr=system.exec.test.run_duration"
"#;
        let script_file = self.path("script.sh");
        std::fs::write(&script_file, format!("{functions}\n{script}")).unwrap();
        let output = Command::new("timeout")
            .arg("--kill-after=10")
            .arg(LONGEST)
            .arg(&self.flux)
            .args(["start", "-c", "conf"])
            .args(options)
            .args(["bash", "script.sh"])
            .current_dir(self.directory.path())
            // An instance that is started again must find its jobs.
            .envs((!options.is_empty()).then_some(("FLUX_DISABLE_JOB_CLEANUP", "1")))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() != Some(124), "the instance hangs:\n{out}\n{err}");
        (output.status.code(), Printed { out, err })
    }
}

impl Printed {
    /// Checks that the output has this text.
    #[track_caller]
    fn has(&self, text: &str) -> &Self {
        assert!(
            self.out.contains(text),
            "no {text:?} in:\n{}\n--- stderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    fn has_no(&self, text: &str) -> &Self {
        assert!(!self.out.contains(text), "{text:?} is in:\n{}", self.out);
        self
    }

    #[track_caller]
    fn complains(&self, text: &str) -> &Self {
        assert!(
            self.err.contains(text),
            "no {text:?} in:\n{}\n--- stdout:\n{}",
            self.err,
            self.out
        );
        self
    }
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Runs the rest of a test where there is a Flux.
macro_rules! place {
    ($($plugins:expr),*) => {
        match Place::new(&[$(&$plugins),*]) {
            Some(place) => place,
            None => return,
        }
    };
}

#[test]
fn an_unchanged_plugin_gives_its_verdicts_and_priorities() {
    let place = place!(["deadline"], ["gate"]);
    let printed = place.run(
        r#"
flux jobtap load ./deadline.so default=2h && flux jobtap list
# A second file beside it: each has its own plugins only.
flux jobtap load ./gate.so && ask gate.lift && ask deadline.lift
flux submit --setattr=deadline=1 true
flux submit --setattr=deadline=soon true
flux submit --setattr=deadline=$(( $(date +%s) + 60 )) -t 120s true
id=$(flux submit --setattr=deadline=4000000000 $TEST=0.01s true)
flux job wait-event $id clean >/dev/null; flux jobs -no '{priority}' $id
flux jobtap query deadline.so
"#,
    );
    printed.complains("deadline: it has passed already");
    printed.complains("attributes.system.deadline must be a time in UNIX seconds, not \"soon\"");
    printed.complains("deadline: the job may take 120 s, but only");
    printed.has("deadline.so\n").has("294967294\n").has(r#""name":"deadline.so""#);
    printed.has("{}\nerror 38");
}

#[test]
fn a_file_needs_only_libc_and_libgcc() {
    let place = place!(["deadline"]);
    let ldd = Command::new("ldd").arg(place.path("deadline.so")).output().unwrap();
    let text = String::from_utf8_lossy(&ldd.stdout).into_owned();
    let needed: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known = |name: &&str| {
        ["libc.so", "libgcc_s.so", "ld-linux", "linux-vdso", "libm.so"]
            .iter()
            .any(|k| name.contains(k))
    };
    assert!(needed.iter().all(known), "{needed:?}");
}

#[test]
fn a_configuration_is_refused_with_its_text_and_followed_when_it_changes() {
    let place = place!(["hosted"]);
    let printed = place.run(
        r#"
flux jobtap load ./hosted.so bse=1
flux jobtap load ./hosted.so refuse="not today"
flux jobtap list; echo --
flux jobtap load ./hosted.so
id=$(flux submit --urgency=16 $TEST=0.01s true); flux job wait-event $id clean >/dev/null
flux jobs -no 'first {priority}' $id
printf '[plugins.hosted]\nbase = 5\n' >conf/more.toml; flux config reload
id=$(flux submit $TEST=0.01s true); flux job wait-event $id clean >/dev/null
flux jobs -no 'second {priority}' $id
printf '[plugins.hosted]\nrefuse = "never"\n' >conf/more.toml; flux config reload || echo refused
id=$(flux submit $TEST=0.01s true); flux job wait-event $id clean >/dev/null
flux jobs -no 'third {priority}' $id
"#,
    );
    printed.complains("[plugins.hosted]: unknown key \"bse\"; did you mean \"base\"?");
    printed.complains("not today").complains("never");
    printed.has("--\nfirst 1000\nsecond 1005\nrefused\nthird 1005\n").has_no("hosted.so\n--");
}

#[test]
fn the_array_of_the_configuration_loads_plugins_with_their_conf() {
    let place = place!(["hosted", "gate"]);
    let file = place.path("hosted-gate.so");
    let plugins = |conf: &str| {
        format!("[job-manager]\nplugins = [ {{ load = \"{}\", conf = {conf} }} ]\n", file.display())
    };
    place.configure(&plugins("{ hosted = { base = 3 } }"));
    let script = r#"
flux jobtap list
id=$(flux submit $TEST=0.01s true); flux job wait-event $id clean >/dev/null
flux jobs -no 'priority {priority}' $id; flux jobtap query hosted-gate.so
"#;
    let printed = place.run(script);
    printed.has("hosted-gate.so\npriority 1003\n").has(r#""hosted":{"started":0,"introduced":0}"#);
    place.configure(&plugins("{ hosted = { base = \"x\" } }"));
    let printed = place.run("true");
    printed.complains("[plugins.hosted]").complains("base");
}

#[test]
fn each_call_has_its_effect() {
    let place = place!(["hosted"]);
    let printed = place.run(
        r#"
flux jobtap load ./hosted.so
flux submit --setattr=hosted.reject="100%s of no %n thing" true
id=$(flux submit --setattr=hosted.rename=better --setattr=hosted.memo=hello --setattr=hosted.watch=1 \
     --setattr=hosted.note=noted --dependency=hold:0.2 --dependency=soon:x --setattr=hosted.prolog='test -n "$JOB"' \
     --setattr=hosted.epilog=0.05 $TEST=0.1s true)
flux job wait-event $id clean >/dev/null
names $id
flux jobs -no 'name {name} memo {user.hosted}' $id
ask hosted.asked "{\"id\": $(flux job id $id)}"
ask hosted.asked '{"id": 3}'
until_true '[ "$(ask hosted.ended)" = "{\"asked\": 1}" ]' && echo counted
ask hosted.later
id=$(flux submit --setattr=hosted.prolog='exit 3' $TEST=0.01s true)
flux job wait-event $id clean >/dev/null; names $id; flux job eventlog $id | grep exception
id=$(flux submit -n100 true); flux job wait-event -t 5 $id priority >/dev/null
# A timer that fires before Flux has stored the submission.
id=$(flux submit --dependency=hold:0 --dependency=soon:x $TEST=0.01s true)
flux job wait-event -t 20 $id clean >/dev/null && echo in time
id=$(flux submit --urgency=hold --setattr=hosted.color=blue $TEST=0.01s true)
flux update $id hosted.color=red; flux update $id hosted.color=green && flux job eventlog $id | grep jobspec-update
flux jobs -a --json | grep -o '"note": *"noted"'
flux cancel $id; flux job wait-event $id clean >/dev/null
id=$(flux submit --flags=debug --dependency=hold:100 true); flux job wait-event -t 5 $id dependency-add >/dev/null
flux cancel $id; flux job wait-event $id clean >/dev/null && echo canceled
flux dmesg | grep hosted | grep -v registered
"#,
    );
    printed.complains("100%s of no %n thing").complains("red is taken");
    printed.has(
        "submit jobspec-update dependency-add dependency-add validate dependency-remove dependency-remove depend \
         priority memo alloc prolog-start prolog-finish start hosted.started finish epilog-start release \
         epilog-finish free clean \n",
    );
    printed.has("name better memo hello\n").has("{\"asked\": 1}\n").has("there is no job");
    printed.has("counted\n{\"asked\": 7}\n");
    printed
        .has("alloc prolog-start exception epilog-start prolog-finish epilog-finish free clean \n");
    printed.has("type=\"prolog\" severity=0 note=\"prolog: exit code 3\"");
    printed.has("attributes.system.hosted.color=\"green\"").has("\"noted\"");
    printed.has("in time\n").has("canceled\n").has_no("dropped");
}

#[test]
fn two_thousand_jobs_go_through_all_handlers_over_a_restart() {
    let place = place!(["hosted"]);
    let state = place.path("state");
    std::fs::create_dir_all(&state).unwrap();
    let file = place.path("hosted.so");
    place.configure(&format!("[job-manager]\nplugins = [ {{ load = \"{}\" }} ]\n", file.display()));
    let options = [format!("-Sstatedir={}", state.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let first = place.run_with(
        &options,
        r#"
flux submit --quiet --cc=1-2000 --dependency=soon:x --setattr=hosted.prolog=: --setattr=hosted.epilog=0.01 $TEST=0.01s true
until_true '[ $(ask hosted.ended | tr -dc 0-9) -ge 300 ]'
flux queue stop --quiet
until_true '[ $(flux jobs -f run -no "{id}" | wc -l) = 0 ]'
ask hosted.ended
"#,
    );
    first.has("{\"asked\": ");
    let second = place.run_with(
        &options,
        r#"
flux queue start --quiet
until_true '[ $(flux jobs -a -c 0 -f completed -no "{id}" | wc -l) = 2000 ]'
flux jobs -a -c 0 -no '{result}' | sort | uniq -c
until_true '[ "$(ask hosted.ended)" = "{\"asked\": 2000}" ]'
ask hosted.ended
asked=$(flux jobs -a -c 0 -no '{id.dec}' | while read id; do ask hosted.asked "{\"id\": $id}"; break; done)
echo "priority asked: $asked"
flux dmesg | grep -c "hosted.*dropped"
"#,
    );
    second.has(" 2000 COMPLETED\n").has("{\"asked\": 2000}\n").has("\n0\n");
}

#[test]
fn data_and_open_prologs_are_there_after_a_restart() {
    let place = place!(["hosted", "gate"]);
    let state = place.path("state");
    std::fs::create_dir_all(&state).unwrap();
    let file = place.path("hosted-gate.so");
    place.configure(&format!("[job-manager]\nplugins = [ {{ load = \"{}\" }} ]\n", file.display()));
    let options = [format!("-Sstatedir={}", state.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    place
        .run_with(
            &options,
            r#"
one=$(flux submit --setattr=hosted.gate=reopen $TEST=0.01s true)
two=$(flux submit --setattr=hosted.gate=lose $TEST=0.01s true)
three=$(flux submit --setattr=hosted.prolog='sleep 9872' $TEST=0.01s true)
for id in $one $two $three; do flux job wait-event -t 10 $id prolog-start >/dev/null; done
four=$(flux submit --dependency=hold:2 $TEST=0.01s true)
flux job wait-event -t 10 $four dependency-add >/dev/null
flux queue stop --quiet
five=$(flux submit $TEST=0.01s true); flux job wait-event -t 10 $five priority >/dev/null
ask hosted.asked "{\"id\": $(flux job id $five)}"
echo $one $two $three $four $five >ids
"#,
        )
        .has("{\"asked\": 1}\n");
    place
        .run_with(
            &options,
            r#"
read one two three four five <ids
pgrep -x -f 'sleep 9872' || echo killed
flux queue start --quiet
until_true 'flux job eventlog $five | grep -q clean'
ask hosted.asked "{\"id\": $(flux job id $five)}"
flux job wait-event -t 10 $two clean >/dev/null; flux job eventlog $two | grep -o 'note=.*' | head -1
flux job wait-event -t 10 $three clean >/dev/null; flux job eventlog $three | grep -o 'note=.*' | head -1
names $one
ask gate.lift; flux job wait-event -t 10 $one clean >/dev/null; names $one
flux job wait-event -t 10 $four clean >/dev/null; names $four
"#,
        )
        .has("killed\n")
        .has("{\"asked\": 2}\n")
        .has("note=\"prolog gate: the job manager was restarted while it was open\"")
        .has("note=\"prolog hosted.prolog: the job manager was restarted while it was open\"")
        .has("alloc prolog-start prolog-start prolog-finish \n{}\nsubmit")
        .has("prolog-finish prolog-finish start finish")
        .has("dependency-add validate dependency-remove depend");
}

#[test]
fn a_broker_that_is_killed_goes_on_from_its_last_checkpoint() {
    let place = place!(["hosted", "gate"]);
    let state = place.path("state");
    std::fs::create_dir_all(&state).unwrap();
    let file = place.path("hosted-gate.so");
    place.configure(&format!(
        "[kvs]\ncheckpoint-period = \"200ms\"\n[job-manager]\nplugins = [ {{ load = \"{}\" }} ]\n",
        file.display()
    ));
    let options = [format!("-Sstatedir={}", state.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (code, printed) = place.start(
        &options,
        r#"
one=$(flux submit --setattr=hosted.gate=reopen $TEST=0.01s true)
flux job wait-event -t 10 $one prolog-start >/dev/null
flux queue stop --quiet
two=$(flux submit $TEST=0.01s true); flux job wait-event -t 10 $two priority >/dev/null
ask hosted.asked "{\"id\": $(flux job id $two)}"
echo $one $two >ids
sleep 2
kill -9 $(flux getattr broker.pid)
"#,
    );
    // `timeout` ends by the signal that ended its command.
    assert!(matches!(code, None | Some(137)), "{code:?}: {}", printed.err);
    printed.has("{\"asked\": 1}\n");
    place
        .run_with(
            &options,
            r#"
read one two <ids
flux queue start --quiet
until_true 'flux job eventlog $two | grep -q clean'
ask hosted.asked "{\"id\": $(flux job id $two)}"
names $one
ask gate.lift; flux job wait-event -t 10 $one clean >/dev/null; names $one
"#,
        )
        .has("{\"asked\": 2}\n")
        .has("alloc prolog-start prolog-start prolog-finish \n{}\nsubmit")
        .has("prolog-finish prolog-finish start finish");
}

#[test]
fn files_are_loaded_removed_and_reloaded_while_jobs_run() {
    let place = place!(["hosted", "gate"]);
    let printed = place.run(
        r#"
id=$(flux submit --dependency=soon:x true 2>&1); echo "$id"
flux submit --quiet --cc=1-20 --urgency=hold true
flux submit --quiet --cc=1-4 $TEST=3s true
cp hosted-gate.so one.so; cp hosted-gate.so two.so
flux jobtap load ./one.so
flux jobtap query one.so
kept=$(flux submit --setattr=hosted.gate=keep $TEST=0.01s true)
slow=$(flux submit --setattr=hosted.prolog='sleep 9871' $TEST=0.01s true)
for id in $kept $slow; do flux job wait-event -t 10 $id prolog-start >/dev/null; done
held=$(flux submit --dependency=hold:8 $TEST=0.01s true)
flux job wait-event -t 10 $held validate >/dev/null
flux jobtap remove one.so
flux job wait-event -t 10 $kept clean >/dev/null; flux job eventlog $kept | grep -o 'note=.*' | head -1
flux job wait-event -t 10 $slow clean >/dev/null; flux job eventlog $slow | grep -o 'note=.*' | head -1
pgrep -x -f 'sleep 9871' || echo killed
flux job wait-event -t 10 $held dependency-add >/dev/null; names $held
ask hosted.later
flux jobtap load ./two.so
flux job wait-event -t 30 $held clean >/dev/null; names $held
ask hosted.later
for i in $(seq 5); do flux jobtap remove two.so; flux jobtap load ./two.so; done
flux jobs -no '{priority}' | sort | uniq -c
flux dmesg | grep -o 'gate: unload with . open' | head -1
flux cancel --all; until_true '[ $(flux jobs -no "{id}" | wc -l) = 0 ]' && echo drained
"#,
    );
    printed.has("dependency scheme \"soon\" not supported");
    printed.has("\"introduced\":24");
    printed.has("note=\"prolog gate: its plugin was removed\"");
    printed.has("note=\"prolog hosted.prolog: its plugin was removed\"").has("killed\n");
    printed.has("submit dependency-add validate \nerror 38");
    printed.has("dependency-remove depend priority alloc").has("{\"asked\": 7}\n");
    printed.has("gate: unload with 1 open").has("drained\n");
}

#[test]
fn a_panic_never_opens_a_gate_and_never_ends_the_broker() {
    let place = place!(["panics"], ["gate"]);
    let printed = place.run(
        r#"
load() { flux jobtap remove panics.so 2>/dev/null; flux jobtap load ./panics.so; }
for topic in job.create job.validate job.dependency.panics; do
    load
    flux submit --dependency=panics:x --setattr=hosted.panic=$topic true
done
for topic in job.new job.state.depend job.state.priority job.state.sched job.state.run job.state.cleanup job.state.inactive; do
    load
    id=$(flux submit --setattr=hosted.panic=$topic $TEST=0.01s true)
    flux job wait-event -t 10 $id clean >/dev/null && flux jobs -no "$topic {result}" $id
done
load
id=$(flux submit --setattr=hosted.panic=prolog $TEST=0.01s true)
flux job wait-event -t 10 $id clean >/dev/null; flux job eventlog $id | grep -o 'note=.*' | head -1; names $id
load; ask panics.panic; ask panics.later; flux jobtap query panics.so
flux submit --setattr=hosted.panic=job.validate true
flux submit true
load; id=$(flux submit $TEST=0.01s true); flux job wait-event -t 10 $id clean >/dev/null && echo works again
flux jobtap load ./gate.so
id=$(flux submit --setattr=hosted.gate=drop $TEST=0.01s true)
flux job wait-event -t 10 $id clean >/dev/null; flux job eventlog $id | grep -o 'note=.*' | head -1
flux dmesg | grep 'panics: '
"#,
    );
    for _ in 0..3 {
        printed.complains("plugin panics failed; what was asked is refused, please report it");
    }
    for state in ["depend", "priority", "sched", "run", "cleanup", "inactive"] {
        printed.has(&format!("job.state.{state} COMPLETED\n"));
    }
    printed.has("job.new COMPLETED\n");
    printed.has("note=\"panics.prolog panicked: wished in the prolog\"");
    printed.has("alloc prolog-start exception prolog-finish free clean");
    printed.has("error 5: plugin panics failed; please report it");
    printed.complains("plugin panics has failed repeatedly").has("works again\n");
    printed.has("gate of plugin gate ended without a result");
    printed.has("panics: later: panicked: wished later");
    printed.has("panics: faulted after 3 panics within 60 s");
}

#[test]
fn a_handler_that_blocks_its_thread_holds_up_no_broker() {
    let place = place!(["panics"]);
    let printed = place.run(
        r#"
flux jobtap load ./panics.so
id=$(flux submit --setattr=hosted.panic=hang $TEST=0.01s true)
flux job wait-event -t 10 $id prolog-start >/dev/null
flux cancel $id; flux job wait-event -t 10 $id clean >/dev/null && echo canceled
flux jobtap remove panics.so && echo removed
id=$(flux submit $TEST=0.01s true); flux job wait-event -t 10 $id clean >/dev/null && echo runs on
"#,
    );
    printed.has("canceled\nremoved\nruns on\n");
}

#[test]
fn a_replaced_file_is_refused_instead_of_running_the_old_code() {
    let place = place!(["hosted"], ["gate"]);
    let printed = place.run(
        r#"
cp hosted.so it.so; flux jobtap load ./it.so && flux jobtap remove it.so
flux jobtap load ./it.so && flux jobtap remove it.so && echo again
cp gate.so new.so; mv new.so it.so
flux jobtap load ./it.so || echo refused
cp gate.so it-2.so; flux jobtap load ./it-2.so && flux jobtap list
flux dmesg | grep 'give each build'
"#,
    );
    printed.has("again\n").has("it-2.so\n");
}

#[test]
fn a_plugin_that_needs_more_than_flux_has_is_refused() {
    let place = place!(["undecided"], ["no-such-plugin"]);
    let printed = place.run(
        r#"
flux jobtap load ./undecided.so || echo refused
flux jobtap load ./no-such-plugin.so || echo refused
flux dmesg | grep jobtap:
"#,
    );
    printed
        .has("refused\nrefused\n")
        .has("plugin \"undecided\" can't run in Flux: validate handles job.validate");
    printed.has("plugin \"no-such-plugin\" is not in this file");
}

#[test]
fn it_runs_in_an_instance_of_four_brokers() {
    let place = place!(["hosted"]);
    // Without the configured resources, which are those of one host.
    std::fs::write(place.path("conf/test.toml"), "").unwrap();
    let printed = place.run_with(
        &["-s4"],
        r#"
flux jobtap load ./hosted.so
flux resource list -s free -no '{nnodes}'
id=$(flux submit -N4 --dependency=soon:x --setattr=hosted.prolog=: true)
flux job wait-event -t 30 $id clean >/dev/null; flux jobs -no '{result} {priority}' $id
flux exec -r 3 flux submit --quiet --wait true && echo from rank 3
"#,
    );
    printed.has("4\nCOMPLETED 1000\nfrom rank 3\n");
}

#[test]
fn a_long_chain_of_dependencies_does_not_use_up_the_stack() {
    let place = place!(["hosted"]);
    let printed = place.run(
        r#"
flux jobtap load ./hosted.so
flux queue stop --quiet
id=$(flux submit $TEST=0.001s true)
# What removes the dependency of one job in the callback of the one before.
for i in $(seq 60); do id=$(flux submit --dependency=afterany:$id $TEST=0.001s true); done
flux cancel --all --quiet
until_true '[ $(flux jobs -no "{id}" | wc -l) = 0 ]' && echo drained
"#,
    );
    printed.has("drained\n");
}

#[test]
fn flux_accountings_plugin_holds_jobs_and_releases_them() {
    let Some(place) = Place::new(&[&["mf_priority"]]) else { return };
    let script = r#"
flux jobtap load -r .priority-default ./mf_priority.so && flux jobtap list
row="{\"userid\": $(id -u), \"bank\": \"A\", \"def_bank\": \"A\", \"fairshare\": 0.45321, \"max_running_jobs\": 1,
    \"max_active_jobs\": 3, \"max_sched_jobs\": 2147483647, \"max_nodes\": 99, \"max_cores\": 99, \"queues\": \"\",
    \"active\": 1, \"projects\": \"*\", \"def_project\": \"*\"}"
echo "nothing: $(ask mf_priority.rec_update)"
first=$(flux submit sleep 1000)
until_true 'names $first | grep -q depend'
ask mf_priority.rec_proj_update '{"data": [{"project": "*"}]}'
ask mf_priority.rec_update "{\"data\": [$row]}"
echo "waits: $(names $first)"
ask mf_priority.reprioritize null
flux job wait-event -t 20 $first priority | cut -d' ' -f2-
echo "$(names $first)"
second=$(flux submit sleep 1000)
flux job wait-event -t 20 $second dependency-add | cut -d' ' -f2-
third=$(flux submit true)
echo "full: $(flux submit true 2>&1)"
echo "bank: $(flux submit --setattr=bank=x true 2>&1)"
query() { flux jobtap query mf_priority.so | jq -c ".mf_priority_map[0].banks[0] | $1"; }
echo "counts: $(query '[.cur_active_jobs, .cur_run_jobs, (.held_jobs | length)]')"
flux jobtap query mf_priority.so | jq -r .name
flux jobtap remove mf_priority.so
flux jobtap load $PWD/mf_priority.so "config={\"associations\": [$row], \"projects\": [{\"project\": \"*\"}]}"
echo "again: $(query '[.cur_active_jobs, .cur_run_jobs, (.held_jobs | length)]')"
flux cancel $first
flux job wait-event -t 20 $second start >/dev/null && echo "second runs"
echo "third: $(names $third)"
flux cancel --all
"#;
    let printed = place.run(script);
    printed.has("mf_priority.so\n");
    printed.has("nothing: error 71: failed to unpack custom_priority.trigger msg: Protocol error");
    printed.has("waits: submit validate depend \n");
    printed.has("priority priority=45321");
    printed.has("submit validate depend jobspec-update memo priority ");
    printed.has("dependency-add description=\"max-running-jobs-user-limit\"");
    printed.has("full: [Errno 22] user has max active jobs");
    let uid = own_uid();
    let bank = "cannot find user/bank or user/default bank entry for uid";
    printed.has(&format!("bank: [Errno 22] {bank}: {uid}"));
    printed.has("counts: [3,1,2]").has("again: [3,1,2]").has("second runs");
    printed.has("third: submit jobspec-update validate dependency-add \n");
}

#[test]
fn flux_coral2s_plugins_give_jobs_ports_and_network_ids() {
    let files: [&[&str]; 2] = [&["cray-pmi-bootstrap"], &["cray-slingshot"]];
    let Some(place) = Place::new(&files) else { return };
    let two =
        "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n";
    std::fs::write(place.path("conf/test.toml"), two).unwrap();
    let script = r#"
for max in 120000 11049; do
    flux jobtap load ./cray-pmi-bootstrap.so port-min=11000 port-max=$max; echo "load: $?"
done
flux jobtap load ./cray-pmi-bootstrap.so port-min=11000 port-max=12000
flux jobtap load ./cray-slingshot.so
flux jobtap list
query() { flux jobtap query cray-slingshot.so | jq -c .vnipool; }
event() { flux job wait-event -f json -t 20 $1 $2 | jq -c ".context$3"; }
query
first=$(flux submit -N2 -n2 sleep 1000)
event $first cray-pmi-bootstrap .ports
event $first cray-slingshot
second=$(flux submit -n1 -o cray-slingshot.vnicount=4 sleep 1000)
event $second cray-slingshot
names $second | grep -c cray-pmi
flux run -o cray-slingshot.vnicount=bad true
flux run -o cray-slingshot=off true; event $(flux job last) cray-slingshot
echo '[cray-slingshot]
vni-pool = "1-5"' >conf/slingshot.toml
flux config reload; echo "reload: $?"
flux cancel --all; flux job wait-event -t 20 $second clean >/dev/null; flux job wait-event -t 20 $first clean >/dev/null
query
third=$(flux submit -N2 -n2 sleep 1000)
event $third cray-pmi-bootstrap .ports
flux cancel --all
"#;
    let printed = place.run_with(&["-s", "2"], script);
    printed.has("load: 1\nload: 1\n").has("reload: 1");
    printed.complains("invalid port min/max").complains("Not enough ports specified: 49");
    printed.complains("1-5 contains invalid VNIs, must be a subset of 0,2-9,11-65535");
    let all = r#"{"universe":"1024-65535","free":"1024-65535","jobs":{}}"#;
    printed.has(&format!("{all}\n[11999,11998]\n{{\"vnis\":[1024]}}\n"));
    printed.has("{\"vnis\":[1025,1026,1027,1028]}\n0\n");
    printed.complains("error parsing cray-slingshot shell options: Expected integer, got string");
    printed.has(r#"{"vnis":[],"empty-reason":"disabled by user request"}"#);
    printed.has(&format!("reload: 1\n{all}\n[11998,11999]\n"));
}

/// A program that plays flux-coral2's service: it does what its arguments don't tell it to refuse.
const DWS: &str = r#"
import sys
import flux
from flux.constants import FLUX_MSGTYPE_REQUEST, FLUX_NODEID_ANY, FLUX_RPC_NORESPONSE

modes = sys.argv[1:]
handle = flux.Flux()

def tell(name, payload):
    handle.rpc("job-manager.dws." + name, payload, FLUX_NODEID_ANY, FLUX_RPC_NORESPONSE)

def answer(step, message):
    print(step, message.payload.get("jobid"), flush=True)
    refused = step + "-fail" in modes
    reply = {"success": False, "errstr": step + " is refused"} if refused else {"success": True}
    if step not in ("teardown", "abort"):
        handle.respond(message, reply)
    return not refused

def create(h, t, message, _):
    if answer("create", message):
        sent = message.payload
        update = {"id": sent["jobid"], "resources": sent["resources"], "exclude": None}
        if "exclude" in modes:
            update["exclude"] = {"not": [{"properties": ["rabbit-1"]}]}
        if "bad-rpc" in modes:
            del update["resources"]
        tell("resource-update", update)

def setup(h, t, message, _):
    if answer("setup", message) and "setup-hang" not in modes:
        assert message.payload["R"]["execution"]["R_lite"]
        tell("prolog-remove", {"id": message.payload["jobid"], "variables": {"DW": "/mnt/1"}})

def post_run(h, t, message, _):
    if answer("post_run", message) and "post_run-hang" not in modes:
        tell("epilog-remove", {"id": message.payload["jobid"]})

def teardown(h, t, message, _):
    answer("teardown", message)
    tell("epilog-remove", {"id": message.payload["jobid"]})

def abort(h, t, message, _):
    answer("abort", message)

watchers = []
for name, call in [("create", create), ("setup", setup), ("post_run", post_run),
                   ("teardown", teardown), ("abort", abort)]:
    watcher = handle.msg_watcher_create(call, FLUX_MSGTYPE_REQUEST, "dws." + name)
    watcher.start()
    watchers.append(watcher)
handle.service_register("dws").get()
open("ready", "w").close()
handle.reactor_run()
"#;

#[test]
fn flux_coral2s_plugin_holds_jobs_for_a_service() {
    let Some(place) = Place::new(&[&["dws"]]) else { return };
    std::fs::write(place.path("dws.py"), DWS).unwrap();
    let script = r##"
flux jobtap load ./dws.so
flux jobtap remove dws.so
flux jobtap load ./dws.so epilog-timeout=-1.0
flux dmesg | grep -o 'dws: .*'
submit() { flux submit --setattr=system.dw='"#DW jobdw"' "$@"; }
events() { flux job wait-event -t 20 $1 clean >/dev/null; flux job eventlog $1 | awk '$2 != "release" { print $2 }' | paste -sd' '; }
status() { flux job eventlog $1 | grep -o "$2 .*status=[0-9]*" | grep -o 'status=.*'; }
serve() { rm -f ready; flux python dws.py "$@" & service=$!; until [ -e ready ]; do sleep 0.1; done; }
leave() { kill $service; wait $service; }
absent=$(submit true)
echo "absent: $(events $absent)"
flux job eventlog $absent | grep exception
serve exclude
all=$(submit --requires=-none true)
echo "all: $(events $all)"
flux job eventlog $all | grep -o 'jobspec-update.*'
flux job eventlog $all | grep -o 'dws_environment.*'
leave
serve create-fail post_run-hang
refused=$(submit true)
flux job wait-event -t 20 $refused epilog-start >/dev/null
flux job raise --type=dws-epilog-timeout $refused
echo "refused: $(events $refused)"
leave
serve setup-fail
unmounted=$(submit true)
echo "unmounted: $(events $unmounted), $(status $unmounted prolog-finish)"
leave
serve post_run-fail
uncopied=$(submit true)
echo "uncopied: $(events $uncopied), $(status $uncopied epilog-finish)"
leave
serve bad-rpc
malformed=$(submit true)
echo "malformed: $(events $malformed)"
flux job eventlog $malformed | grep -c 'received malformed dws.resource-update RPC'
leave
serve setup-hang
kept=$(submit sleep 100)
flux job wait-event -t 20 $kept prolog-start >/dev/null
sleep 0.3
flux jobtap remove dws.so
flux jobtap load ./dws.so epilog-timeout=0.3
flux cancel $kept
echo "kept: $(events $kept), $(status $kept prolog-finish), $(status $kept epilog-finish)"
leave
serve post_run-hang
late=$(submit true)
echo "late: $(events $late), $(status $late epilog-finish)"
flux job eventlog $late | grep -o 'note="DWS epilog timed out"'
leave || true
"##;
    let printed = place.run(script);
    printed.has("dws: failed to unpack config: ").has("dws: epilog timeout = 0.000s");
    printed.has("dws: epilog timeout = -1.000s");
    let failed = "submit validate dependency-add exception epilog-start";
    printed.has(&format!("absent: {failed} exception epilog-finish clean"));
    printed.has("dws.create RPC could not be sent. Admins: is the flux-coral2-dws service loaded?");
    printed.has("note=\"DWS workflow interactions failed: Failed to send dws.post_run RPC\"");
    let prepared = "submit validate dependency-add jobspec-update dependency-remove depend priority alloc prolog-start";
    let ran = format!("{prepared} dws_environment prolog-finish start finish epilog-start");
    printed.has(&format!("all: {ran} epilog-finish free clean"));
    printed
        .has(r#"attributes.system.constraints={"and":[{"not":[{"properties":["none"]}]},{"not":"#);
    printed.has(r#"dws_environment variables={"DW":"/mnt/1"}"#);
    printed.has(&format!("refused: {failed} exception epilog-finish clean")).has("abort ");
    printed
        .has(&format!("unmounted: {prepared} exception "))
        .has("epilog-finish free clean, status=1");
    printed.has(&format!("uncopied: {ran} exception epilog-finish free")).has("teardown ");
    printed.has(&format!("malformed: {failed} epilog-finish clean\n1\n"));
    printed.has(&format!("kept: {prepared} exception ")).has("clean, status=1, status=0");
    printed.has(&format!("late: {ran} exception epilog-finish free clean, status=1"));
    printed.has("note=\"DWS epilog timed out\"");
}

/// The user of the tests.
fn own_uid() -> String {
    jobtap_tests::run(Command::new("id").arg("-u")).ok()
}
