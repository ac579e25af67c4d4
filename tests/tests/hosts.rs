//! The same plugin crates in every host: the same jobs get the same verdicts and priorities, and their prologs
//! run before them.
//!
//! `jobtap build` makes a manager, a file for Flux and two files for Slurm of `examples/deadline`, `examples/ceiling`
//! and `examples/scratch`, unchanged. A host that isn't installed is skipped, and the test says so.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use jobtap_tests::flux::flux;
use jobtap_tests::site::Site;
use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::{run, until};

/// The plugins' settings, as tables of a configuration.
fn settings(program: &Path) -> String {
    format!(
        "[plugins.ceiling]\nmax-tasks = 4\nmax-duration = \"10m\"\n\n\
         [plugins.scratch]\nprogram = {program:?}\n"
    )
}

/// A job that is submitted in each host.
struct Case {
    name: &'static str,
    tasks: u32,
    minutes: u32,
    /// Whether the program that prepares the job fails.
    fails: bool,
}

const CASES: &[Case] = &[
    Case { name: "small", tasks: 1, minutes: 1, fails: false },
    Case { name: "at the limits", tasks: 4, minutes: 10, fails: false },
    Case { name: "too many tasks", tasks: 5, minutes: 1, fails: false },
    Case { name: "too long", tasks: 1, minutes: 11, fails: false },
    Case { name: "without its directory", tasks: 2, minutes: 1, fails: true },
];

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Became {
    /// A plugin refused it with this text.
    Refused(String),
    /// It ran after its prolog, with the priority of a deadline this many hours after its submission.
    Ran { due_in_hours: i64 },
    /// Its prolog failed, and its tasks were not started.
    NotStarted,
}

/// A directory with the files of all hosts, and with the program that prepares jobs.
struct Place {
    site: Site,
}

impl Place {
    fn new() -> Self {
        let site = Site::new();
        for name in ["deadline", "ceiling", "scratch"] {
            site.plugin(name);
        }
        let program = site.path("prepare");
        // It writes which job it has prepared, or fails.
        let text = format!(
            "#!/bin/sh\ncd {:?} || exit 2\nif [ -e fail ]; then exit 1; fi\necho \"$1\" >made\n",
            site.path("")
        );
        site.write("prepare", &text);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let host = run(Command::new("uname").arg("-n")).ok();
        let resources = format!(
            "[resource]\nnoverify = true\n[[resource.config]]\nhosts = {:?}\ncores = \"0-7\"\n\n",
            host.trim()
        );
        site.write("instance/site.toml", &(resources + &settings(&program)));
        site.write("jobtap.toml", &settings(&program));
        Self { site }
    }

    fn build(&self, words: &str, plugins: &[&str], variables: &[(&str, &Path)]) {
        let with: Vec<String> =
            plugins.iter().map(|name| format!("--with {name}={name}")).collect();
        let words = format!("{words} {}", with.join(" "));
        self.site.build_with(&words, variables).ok();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    /// Resets the place before a job: nothing is prepared, and the program fails if the case says so.
    fn reset(&self, case: &Case) {
        for name in ["made", "ran", "fail"] {
            let _ = fs::remove_file(self.path(name));
        }
        if case.fails {
            self.site.write("fail", "");
        }
    }
}

/// The hours from now to the deadline from which the plugin `deadline` computed a priority.
fn due_in_hours(priority: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let due = i64::from(u32::MAX) - 1 - priority;
    // Rounded, since even a slow test is less than half an hour late.
    ((due - i64::try_from(now).unwrap()) as f64 / 3600.0).round() as i64
}

/// Submits the jobs with Flux's commands: in Flux, and in our manager, which has the same commands. `start` begins an
/// instance with an initial program, and `load` is run in it first.
fn by_flux_commands(place: &Place, start: &str, flux: &str, load: &str) -> Vec<Became> {
    let mut script = format!("cd {:?}\nflux() {{ {flux} \"$@\"; }}\n{load}\n", place.path(""));
    script.push_str(
        r#"
try() {
    rm -f made ran fail; if [ "$3" = true ]; then touch fail; fi
    if ! id=$(flux submit -n "$1" -t "$2"m sh -c 'test -s made && touch ran' 2>err); then
        echo "refused $(grep -o '[a-z]*: [0-9a].*' err)"; return
    fi
    flux job wait-event -t 60 "$id" clean >/dev/null || exit 1
    if [ -e ran ]; then
        echo "ran $(flux job eventlog "$id" | grep -o 'priority=[0-9]*' | head -1 | cut -d= -f2)"
    else
        flux job eventlog "$id" | grep -q 'exception type="prolog"' && echo "not started"
    fi
}
"#,
    );
    for case in CASES {
        script.push_str(&format!("try {} {} {}\n", case.tasks, case.minutes, case.fails));
    }
    place.site.write("script.sh", &script);
    let words = format!("{start} bash {:?}", place.path("script.sh"));
    let output = run(Command::new("sh").args(["-c", &words]).current_dir(place.path("")));
    let read = |line: &str| {
        if let Some(text) = line.strip_prefix("refused ") {
            return Some(Became::Refused(text.to_owned()));
        }
        if line == "not started" {
            return Some(Became::NotStarted);
        }
        let priority = line.strip_prefix("ran ")?.parse().ok()?;
        Some(Became::Ran { due_in_hours: due_in_hours(priority) })
    };
    let found: Vec<Became> = output.stdout.lines().filter_map(read).collect();
    assert_eq!(found.len(), CASES.len(), "{output:?}");
    found
}

fn in_our_manager(place: &Place) -> Vec<Became> {
    place.build("-o site-manager", &["deadline", "ceiling", "scratch"], &[]);
    let manager = place.path("site-manager");
    let start = format!("{manager:?} start --config-path={:?}", place.path("instance"));
    let load = format!("{manager:?} resource status >/dev/null");
    by_flux_commands(place, &start, &format!("{manager:?}"), &load)
}

fn in_flux(place: &Place) -> Option<Vec<Became>> {
    let flux = flux()?;
    place.build("--host flux -o site.so", &["deadline", "ceiling", "scratch"], &[]);
    let start = format!("{flux:?} start -c {:?}", place.path("instance"));
    let load = format!("flux jobtap load {:?} || exit 1", place.path("site.so"));
    Some(by_flux_commands(place, &start, &format!("{flux:?}"), &load))
}

fn in_slurm(place: &Place) -> Option<Vec<Became>> {
    let installation = Installation::system();
    if let Some(missing) = installation.missing_for_plugins() {
        println!("skipped: there is no {missing}");
        return None;
    }
    let source = [("SLURM_SOURCE_DIR", installation.source()?)];
    place.build("--host slurm-job-submit -o job_submit_site.so", &["deadline", "ceiling"], &source);
    place.build("--host slurm-prep -o prep_site.so", &["scratch"], &source);
    let lines = "JobSubmitPlugins=site\nPrEpPlugins=site\nPrologFlags=Alloc";
    let mut slurm = Slurm::start_with(lines, |etc| {
        for name in ["job_submit_site.so", "prep_site.so"] {
            fs::copy(place.path(name), etc.join("../plugins").join(name)).unwrap();
        }
        fs::copy(place.path("jobtap.toml"), etc.join("jobtap.toml")).unwrap();
    });
    slurm.start_node();
    Some(CASES.iter().map(|case| submitted_to(&slurm, place, case)).collect())
}

fn submitted_to(slurm: &Slurm, place: &Place, case: &Case) -> Became {
    place.reset(case);
    let (tasks, minutes) = (case.tasks.to_string(), case.minutes.to_string());
    let script = format!("cd {:?} && test -s made && touch ran", place.path(""));
    let words = ["-n", &tasks, "-t", &minutes, "-o", "/dev/null", "--wrap", &script];
    let output = slurm.sbatch(&words);
    if output.code != 0 {
        let told = output.stderr.lines().find_map(|line| line.split_once("error: ceiling: "));
        return Became::Refused(format!("ceiling: {}", told.unwrap().1));
    }
    let id = output.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    let show = || slurm.client("scontrol", &["-o", "show", "job", &id]).stdout;
    if case.fails {
        // Slurm requeues a batch job whose PrologSlurmctld has failed.
        until("the job is queued again", || show().contains("Restarts=1"));
        slurm.client("scancel", &[&id]).ok();
        assert!(!place.path("ran").exists(), "it was started");
        return Became::NotStarted;
    }
    until("the job has ended", || show().contains("JobState=COMPLETED"));
    assert!(place.path("ran").exists(), "it was started before its prolog had ended");
    let shown = show();
    let priority = shown.split_whitespace().find_map(|word| word.strip_prefix("Priority="));
    Became::Ran { due_in_hours: due_in_hours(priority.unwrap().parse().unwrap()) }
}

impl std::fmt::Display for Became {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(text) => write!(f, "refused: `{text}`"),
            Self::Ran { due_in_hours } => {
                write!(
                    f,
                    "ran after its prolog, with the priority of a deadline in {due_in_hours} h"
                )
            }
            Self::NotStarted => f.write_str("its prolog failed, and it was not started"),
        }
    }
}

/// The lines of the guide's table: each job, what became of it, and the hosts where it did.
fn table(hosts: &[(&str, Vec<Became>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, Case { name, tasks, minutes, .. }) in CASES.iter().enumerate() {
        let mut verdicts: Vec<(&Became, Vec<&str>)> = Vec::new();
        for (host, found) in hosts {
            match verdicts.iter_mut().find(|(verdict, _)| **verdict == found[index]) {
                Some((_, hosts)) => hosts.push(host),
                None => verdicts.push((&found[index], vec![host])),
            }
        }
        lines.extend(verdicts.into_iter().map(|(verdict, hosts)| {
            format!("| {name} (`-n{tasks} -t{minutes}`) | {verdict} | {} |", hosts.join(", "))
        }));
    }
    lines
}

#[test]
fn the_same_jobs_get_the_same_verdicts_in_every_host() {
    let place = Place::new();
    let expected = [
        Became::Ran { due_in_hours: 24 },
        Became::Ran { due_in_hours: 24 },
        Became::Refused("ceiling: 5 tasks, at most 4 are allowed".to_owned()),
        Became::Refused("ceiling: a time limit of 660 s, at most 600 s are allowed".to_owned()),
        Became::NotStarted,
    ];
    let hosts = [
        ("jobtap", Some(in_our_manager(&place))),
        ("Flux", in_flux(&place)),
        ("Slurm", in_slurm(&place)),
    ];
    for (host, found) in &hosts {
        for (index, case) in CASES.iter().enumerate() {
            let Some(found) = found.as_ref().and_then(|found| found.get(index)) else { continue };
            assert_eq!(Some(found), expected.get(index), "{host}: {}", case.name);
        }
    }
    let all: Vec<_> = hosts.into_iter().filter_map(|(host, found)| Some((host, found?))).collect();
    let lines = table(&all);
    println!("{}", lines.join("\n"));
    if all.len() == 3 {
        let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/hosts.md");
        let chapter = fs::read_to_string(chapter).unwrap();
        assert!(chapter.contains(&lines.join("\n")), "hosts.md shows another table");
    }
}

#[test]
fn a_file_for_flux_tells_what_is_inside_and_needs_no_flux_to_be_built() {
    let place = Place::new();
    place.build("--host flux -o site.so", &["ceiling", "deadline"], &[]);
    let file = place.path("site.so");
    let text = run(place.site.command().args(["plugin", "available"]).arg(&file)).ok();
    let row = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("ceiling")[..4], ["ceiling", "ceiling", "0.1.0", "flux"]);
    assert!(row("ceiling")[4].starts_with("path+/"), "{text}");
    assert_eq!(row("deadline")[5], "job.priority.get,job.state.priority,job.validate");
    let needed = run(Command::new("ldd").arg(&file)).ok();
    let needed: Vec<&str> = needed.lines().filter_map(|l| l.split_whitespace().next()).collect();
    let known = ["linux-vdso.so.1", "libgcc_s.so.1", "libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
    assert!(needed.iter().all(|name| known.contains(name)), "{needed:?}");
    // The same file name is refused for another host.
    let refused = place.site.build("--host slurm-prep -o site.so --with ceiling=ceiling");
    assert!(refused.stderr.trim_end().ends_with("name it prep_NAME.so"), "{refused:?}");
}
