//! The crates that `jobtap new` makes compile, pass their tests and lints, and build into a manager.

use std::path::Path;
use std::process::Command;

use jobtap_tests::site::Site;
use jobtap_tests::{Manager, Output, run};

fn cargo(site: &Site, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(words).current_dir(site.path("fair-limits"));
    run(command.env("CARGO_TARGET_DIR", site.path("target")))
}

#[test]
fn a_new_plugin_passes_its_tests_and_builds_into_a_manager() {
    let site = Site::new();
    let new = |words: &[&str]| run(site.command().arg("new").args(words));
    let next = new(&["plugin", "fair-limits"]).ok();
    // The command that it prints works from a shell that doesn't find the program.
    let build = next.lines().find(|line| line.contains(" build --with ")).unwrap();
    let (program, words) = build.trim_start().split_once(' ').unwrap();
    assert_eq!(words, "build --with fair-limits=fair-limits -o site-manager");
    assert!(Path::new(program).is_absolute() && Path::new(program).is_file(), "{next}");
    let tested = cargo(&site, &["test", "--offline"]);
    assert_eq!(tested.stdout.matches("test result: ok").count(), 3, "{tested:?}");
    assert!(tested.stdout.contains("- compile fail ... ok"), "{tested:?}");
    cargo(&site, &["fmt", "--check"]).ok();
    cargo(&site, &["clippy", "--offline", "--locked", "--all-targets", "--", "-D", "warnings"])
        .ok();

    // None of these shows in a test, and the manager would wait for each.
    let lib = site.read("fair-limits/src/lib.rs");
    for (mistake, advice) in [
        ("std::thread::sleep(Default::default());", "use remote.after(..)"),
        ("drop(std::process::Command::new(\"hostname\").output());", "use remote.run_process"),
        ("drop(std::net::TcpStream::connect(\"localhost:1\"));", "remote.blocking(..)"),
    ] {
        let wrong = lib.replacen("let asked =", &format!("{mistake}\n        let asked ="), 1);
        site.write("fair-limits/src/lib.rs", &wrong);
        let refused = cargo(&site, &["clippy", "--offline", "--", "-D", "warnings"]);
        assert!(refused.stderr.contains(advice), "{refused:?}");
    }
    site.write("fair-limits/src/lib.rs", &lib);

    new(&["manager", "site-manager"]).ok();
    let again = new(&["manager", "site-manager"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("site-manager is there already"), "{again:?}");
    let manifest = "-f site-manager/jobtap-build.toml";
    site.build(&format!("add fair-limits=fair-limits {manifest}")).ok();
    assert!(site.read("site-manager/jobtap-build.toml").contains("path = \"../fair-limits\"\n"));
    // A directory of the manager's name is here, so the binary goes into it.
    site.build(manifest).ok();
    let m = Manager::start_with(
        &site.path("site-manager/site-manager"),
        "[plugins.fair-limits]\nmax-tasks = 2\n",
    );
    let refusal = m.jobtap("submit -n 3 true").stderr;
    assert!(refusal.contains("3 tasks are more than the 2 allowed here"), "{refusal}");
}
