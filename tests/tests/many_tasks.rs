//! Runs the two scripts of the guide's chapter "Many tasks": one element of an array fails, and only that element is
//! submitted again.
//!
//! With `JOBTAP_TASKS=100000` and `--nocapture`, what it prints is the chapter's record.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use jobtap_tests::{clean, jobtap, run, temporary};

/// The chapter has this many elements.
const ALL: &str = "100000";

#[test]
#[allow(clippy::print_stdout)]
fn one_element_fails_and_is_submitted_again() {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/many-tasks.md");
    let chapter = fs::read_to_string(chapter).unwrap();
    let mut blocks = chapter.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (program, day) = (blocks.next().unwrap(), blocks.next().unwrap());
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    let tasks = std::env::var("JOBTAP_TASKS").unwrap_or("200".to_owned());
    let day = match tasks == ALL {
        true => day.to_owned(),
        // A small array has its bad parameter early, and is over soon, so the script doesn't wait.
        false => day
            .replace(ALL, &tasks)
            .replace("4711", "47")
            .replace("4710", "46")
            .replace("sleep 20", ""),
    };
    for (name, text) in [("simulate", program), ("day.sh", &day)] {
        fs::write(at(name), text).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir(at("parameters")).unwrap();
    symlink(jobtap(), at("jobtap")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut instance = clean(jobtap());
    instance.args(["start", "./day.sh"]).current_dir(directory.path());
    instance.env("PATH", format!("{}:{path}", directory.path().display()));
    let begin = Instant::now();
    let ran = run(&mut instance);
    println!("{:.1} s\n{}\n{}", begin.elapsed().as_secs_f64(), ran.stdout, ran.stderr);
    assert_eq!(ran.code, 0, "{ran:?}");
    let bad = if tasks == ALL { "4710" } else { "46" };
    assert!(ran.stderr.contains(&format!("1 element failed: {bad}\n")), "{ran:?}");
    assert!(ran.stderr.contains("Illegal number: 5O"), "{ran:?}");
    let seed: u32 = bad.parse::<u32>().unwrap() + 1;
    assert!(ran.stdout.contains(&format!("seed {seed}: {}\n", 20_000 + seed)), "{ran:?}");
    let all: u32 = tasks.parse().unwrap();
    let listed: Vec<&str> = ran.stdout.lines().rev().take(2).collect();
    let of = |ids: &str, status: &str| {
        listed.iter().any(|line| line.contains(ids) && line.contains(status))
    };
    assert!(of(&format!("[0-{}]", all - 1), " F ") && of(&format!("[{bad}]"), " CD "), "{ran:?}");
}
