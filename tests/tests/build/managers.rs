//! `jobtap build` compiles managers with the chosen plugins; here they are started and run jobs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jobtap_tests::site::{Site, cache};
use jobtap_tests::{Manager, clean, run, workspace};
use serde_json::Value;

/// A plugin by its path, a plugin and a scheduler from a directory of crates, and two builtins left out.
const CUSTOM: &str = r#"
[manager]
name = "custom"
version = "2.1.0"
without = [".priority-default", ".limit-job-size"]

[[plugin]]
name = "probe"
version = "0.1"
directory = "crates"
after = ["deadline"]

[[plugin]]
name = "shortest"
version = "0.1"
directory = "crates"

[[plugin]]
name = "deadline"
path = "deadline"
config = { default = "2d" }

[config]
policy.jobspec.defaults.system.duration = "1h"
"#;

/// The same plugins with one builtin and without the parts that a manager can do without, so that little is compiled.
const SMALL: &str = r#"
[manager]
name = "small"
builtins = [".priority-default"]
without-parts = ["http", "tools", "top"]

[[plugin]]
name = "probe"
version = "0.1"
directory = "crates"

[[plugin]]
name = "deadline"
path = "deadline"
"#;

/// For a library for Flux, which takes the same way as a manager and a fifth of its time.
const LIBRARY: &str = "[manager]\nname = \"site\"\nbuiltins = []\n\
    [[plugin]]\nname = \"deadline\"\npath = \"deadline\"\n";

/// Returns the site and its small manager, which is built once for all tests of this file.
fn small() -> &'static (Site, PathBuf) {
    static SITE: OnceLock<(Site, PathBuf)> = OnceLock::new();
    SITE.get_or_init(|| {
        let site = Site::with_plugins();
        site.write("jobtap-build.toml", SMALL);
        site.build("").ok();
        let binary = site.path("small");
        (site, binary)
    })
}

/// Returns the site and its custom manager, which is built once for all tests of this file.
fn custom() -> &'static (Site, PathBuf) {
    static SITE: OnceLock<(Site, PathBuf)> = OnceLock::new();
    SITE.get_or_init(|| {
        let site = Site::with_plugins();
        site.write("jobtap-build.toml", CUSTOM);
        let output = site.build("");
        assert!(output.stderr.contains("MB, "), "{output:?}");
        output.ok();
        let binary = site.path("custom");
        (site, binary)
    })
}

fn available(binary: &Path) -> Value {
    let text = run(clean(binary).args(["plugin", "available", "--json"])).ok();
    serde_json::from_str(&text).unwrap()
}

fn names(binary: &Path) -> Vec<String> {
    let plugins = available(binary)["plugins"].as_array().unwrap().clone();
    plugins.iter().map(|plugin| plugin["name"].as_str().unwrap().to_owned()).collect()
}

/// Submits a job with these options and returns its priority.
fn priority(m: &Manager, options: &str) -> u64 {
    let id = m.submit(&format!("{options} true"));
    m.wait(&id, "clean");
    let entry = m.jobtap(&format!("job wait-event -f json {id} priority")).ok();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    entry["context"]["priority"].as_u64().unwrap()
}

#[test]
fn the_plain_manager_can_build_itself() {
    let site = Site::new();
    site.write("jobtap-build.toml", "[manager]\nname = \"again\"\n");
    site.build("").ok();
    let binary = site.path("again");
    assert_eq!(names(&binary), names(jobtap_tests::jobtap()));
    let m = Manager::start(&binary);
    assert_eq!(priority(&m, ""), 16);
    // The built manager can itself build managers, from the sources that it contains.
    let words = ["build", "--offline", "--cache"];
    let mut command = clean(&binary);
    command.args(words).arg(cache()).args(["-o", "third"]);
    run(command.current_dir(site.path(""))).ok();
    assert_eq!(std::fs::read(&binary).unwrap(), std::fs::read(site.path("third")).unwrap());
}

#[test]
fn a_manifest_adds_plugins_and_leaves_out_builtins() {
    let (_, binary) = custom();
    let plugins = names(binary);
    // The manifest puts `probe` after `deadline`.
    assert_eq!(plugins[plugins.len() - 2..], ["deadline", "probe"]);
    assert!(!plugins.contains(&".priority-default".to_owned()), "{plugins:?}");
    let m = Manager::start(binary);
    let deadline = 4_000_000_000_u64;
    let options = format!("--setattr=deadline={deadline}");
    assert_eq!(priority(&m, &options), u64::from(u32::MAX) - 1 - deadline);
    // The site's configuration file overrides the configuration of the manifest.
    let config = m.jobtap("config get").ok();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config.pointer("/plugins/deadline/default").unwrap(), "2d");
    let duration = config.pointer("/policy/jobspec/defaults/system/duration");
    assert_eq!(duration.unwrap(), "1h");
    let m = Manager::start_with(binary, "[plugins.deadline]\ndefault = \"3d\"\n");
    let config: Value = serde_json::from_str(&m.jobtap("config get").ok()).unwrap();
    assert_eq!(config.pointer("/plugins/deadline/default").unwrap(), "3d");
}

#[test]
fn a_manager_can_be_built_with_a_single_builtin() {
    let (_, binary) = small();
    assert_eq!(names(binary), [".priority-default", "probe", "deadline"]);
    Manager::start(binary).jobtap("run true").ok();
}

#[test]
fn a_manager_lists_its_plugins_and_their_sources() {
    let binary = &custom().1;
    let answer = available(binary);
    assert_eq!(answer["format"], 1);
    assert_eq!(answer["manager"]["name"], "custom");
    assert_eq!(answer["manager"]["version"], "2.1.0");
    let version = |binary: &Path, option: &str| run(clean(binary).arg(option)).ok();
    let sdk = version(jobtap_tests::jobtap(), "--version");
    assert_eq!(sdk, format!("jobtap {}", answer["sdk"].as_str().unwrap()));
    let first = format!("custom 2.1.0 ({sdk})");
    assert_eq!(version(binary, "-V"), first);
    let plugins = "plugins: see `custom plugin available`";
    assert_eq!(version(binary, "--version"), format!("{first}\n{plugins}"));
    let plugins = answer["plugins"].as_array().unwrap();
    let deadline = plugins.iter().find(|plugin| plugin["name"] == "deadline").unwrap();
    assert_eq!(deadline["crate"], "deadline");
    assert_eq!(deadline["version"], "0.1.0");
    assert_eq!(deadline["source"], "path+deadline");
    assert_eq!(deadline["license"], "MIT");
    assert_eq!(deadline["authors"], serde_json::json!(["A Site <site@site.example>"]));
    let topics = ["job.priority.get", "job.state.priority", "job.validate"];
    assert_eq!(deadline["topics"], serde_json::json!(topics));
    assert!(deadline["checksum"].as_str().unwrap().starts_with("sha256:"));
    let probe = plugins.iter().find(|plugin| plugin["name"] == "probe").unwrap();
    assert_eq!(probe["source"], "directory+crates");
    let schedulers = answer["schedulers"].as_array().unwrap();
    let source = |name: &str| {
        schedulers.iter().find(|scheduler| scheduler["name"] == name).unwrap()["source"].clone()
    };
    assert_eq!((source("shortest"), source("easy")), ("directory+crates".into(), "sdk".into()));
    let sbom = run(clean(binary).args(["plugin", "available", "--sbom"])).ok();
    let sbom: Value = serde_json::from_str(&sbom).unwrap();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let components = sbom["components"].as_array().unwrap();
    for name in ["deadline", "probe", "jobtap-core", "serde"] {
        let component = components.iter().find(|component| component["name"] == name).unwrap();
        assert_eq!(component["hashes"][0]["alg"], "SHA-256", "{name}");
        let reference = &component["bom-ref"];
        let dependencies = sbom["dependencies"].as_array().unwrap();
        assert!(dependencies.iter().any(|entry| entry["ref"] == *reference), "{name}");
    }
}

#[test]
fn a_binary_contains_its_manifest_and_can_be_compared() {
    let (site, binary) = custom();
    let other = Site::with_plugins();
    other.build(&format!("--from-binary {}", binary.display())).ok();
    assert_eq!(other.read("jobtap-build.lock"), site.read("jobtap-build.lock"));
    // The recovered manifest would build the same manager.
    let diff = |site: &Site| site.build(&format!("diff {}", binary.display()));
    let same = diff(&other);
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{same:?}");
    let again = other.build(&format!("--from-binary {}", binary.display()));
    assert!(again.stderr.contains("jobtap-build.toml is there already"), "{again:?}");

    other.build("remove probe").ok();
    other.build("add .priority-default").ok();
    let source = other.read("deadline/src/lib.rs");
    other.write("deadline/src/lib.rs", &format!("{source}\n// Changed.\n"));
    let changed = diff(&other);
    assert_eq!(changed.code, 1);
    for line in [
        "- crate probe 0.1.0 (directory+crates)",
        "+ plugin .priority-default",
        "crate deadline: other sources of 0.1.0",
    ] {
        assert!(changed.stdout.lines().any(|said| said == line), "{line}: {changed:?}");
    }
    let none = site.build("--from-binary deadline/src/lib.rs -f other.toml");
    assert!(none.stderr.contains("`jobtap build` has not made this file"), "{none:?}");
}

#[test]
fn the_same_manifest_and_lock_give_the_same_bytes() {
    // All of it is compiled twice.
    let manifest = LIBRARY;
    let words = "--host flux -o site.so";
    let [site, other] = [Site::with_plugins(), Site::with_plugins()];
    site.write("jobtap-build.toml", manifest);
    site.build(words).ok();
    other.write("jobtap-build.toml", manifest);
    other.write("jobtap-build.lock", &site.read("jobtap-build.lock"));
    // A vendor directory has the crates of all targets, and this test was built with those of one.
    run(Command::new(env!("CARGO")).args(["fetch", "--locked"]).current_dir(workspace())).ok();
    other.build("--host flux --offline --locked --vendor vendor --print-crate ejected").ok();
    // Another directory, an empty cache, and no crates but the vendored ones.
    let mut command = other.command();
    command.arg("build").args(words.split(' '));
    command.args(["--locked", "--vendor", "vendor", "--cache", "cache"]);
    run(command.env("CARGO_HOME", other.path("cargo-home"))).ok();
    let bytes = |site: &Site| std::fs::read(site.path("site.so")).unwrap();
    let (one, two) = (bytes(&site), bytes(&other));
    assert!(one == two, "{} and {} bytes", one.len(), two.len());
    assert_eq!(other.read("jobtap-build.lock"), site.read("jobtap-build.lock"));
}

#[test]
fn a_changed_plugin_recompiles_only_itself_and_the_manager() {
    let site = Site::with_plugins();
    site.write("jobtap-build.toml", CUSTOM);
    site.build("").ok();
    let text = site.read("deadline/src/lib.rs").replace("it has passed already", "too late");
    site.write("deadline/src/lib.rs", &text);
    let output = site.build("");
    let compiled = output.stderr.lines().filter_map(|line| line.trim().strip_prefix("Compiling "));
    let compiled: Vec<&str> = compiled.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(compiled, ["deadline", "custom"]);
    let m = Manager::start(&site.path("custom"));
    let refusal = m.jobtap("submit --setattr=deadline=1 true").stderr;
    assert!(refusal.contains("deadline: too late"), "{refusal}");
}

#[test]
fn a_plugin_that_does_not_compile_is_named() {
    let site = Site::with_plugins();
    site.write("jobtap-build.toml", CUSTOM);
    let text = site.read("deadline/src/lib.rs").replace("cx.now()", "cx.later()");
    site.write("deadline/src/lib.rs", &text);
    let output = site.build("");
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("no method named `later`"), "{}", output.stderr);
    let place = site.path("deadline");
    let said =
        format!("plugin \"deadline\" 0.1.0 ({}) does not compile: 1 error, above", place.display());
    assert!(output.stderr.contains(&said), "{}", output.stderr);
    assert!(!site.path("custom").exists());
}

#[test]
fn a_linked_plugin_missing_from_the_manifest_is_refused() {
    let site = Site::with_plugins();
    let manifest = "[package]\nname = \"wrapper\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\
        [dependencies]\njobtap-core = \"0.2\"\ndeadline = { path = \"../deadline\" }\n";
    site.write("wrapper/Cargo.toml", manifest);
    let source = "use deadline as _;\nuse jobtap_core::prelude::*;\nstruct W;\n\
        #[jobtap_plugin(name = \"wrapper\")]\nimpl W {\n    #[init]\n    fn new() -> Self { W }\n}\n";
    site.write("wrapper/src/lib.rs", source);
    let output = site.build("--with wrapper=wrapper -o never");
    let said = "plugin \"deadline\" of crate deadline is linked and is not in the manifest";
    assert!(output.stderr.contains(said), "{}", output.stderr);
    assert!(!site.path("never").exists() && !site.path("never.new").exists());
}

#[test]
fn the_generated_crate_builds_without_the_site() {
    let site = Site::with_plugins();
    site.write("jobtap-build.toml", LIBRARY);
    // The same directory in each run, so that compiled crates don't pile up.
    let ejected = cache().with_file_name("ejected");
    let _ = std::fs::remove_dir_all(ejected.join("src"));
    let print = || site.build(&format!("--host flux --print-crate {}", ejected.display())).ok();
    print();
    // Printing again removes files that the SDK no longer has.
    let stale = ejected.join("sdk/jobtap-domain/src/job/mod/stale.rs");
    std::fs::create_dir_all(stale.parent().unwrap()).unwrap();
    std::fs::write(&stale, "").unwrap();
    print();
    assert!(!stale.exists());
    let cargo = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(words).args(["--offline", "--locked"]).current_dir(&ejected);
        run(command.env("CARGO_TARGET_DIR", ejected.join("target")))
    };
    // The crate must not need these sources any more.
    std::fs::remove_dir_all(site.path("deadline")).unwrap();
    std::fs::remove_dir_all(site.path("crates")).unwrap();
    cargo(&["check", "--quiet"]).ok();
    let lib = std::fs::read_to_string(ejected.join("src/lib.rs")).unwrap();
    assert!(lib.contains("use deadline as _;\n"), "{lib}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_static_manager_runs_in_an_empty_root_directory() {
    let root = jobtap_tests::temporary();
    let path = |name: &str| root.path().join(name);
    std::fs::copy(&custom().1, path("manager")).unwrap();
    let linked = run(Command::new("ldd").arg(path("manager")));
    let linked = format!("{}{}", linked.stdout, linked.stderr);
    assert!(["statically linked", "not a dynamic executable"].iter().any(|t| linked.contains(t)));
    let inside = |words: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]);
        command.arg("--root").arg(root.path()).args(words.split(' ')).env_clear();
        run(command.env("PATH", "/usr/bin:/bin"))
    };
    assert!(inside("/manager plugin available").ok().contains("deadline"));
    // Jobs need what every container has: `/proc`, `/dev/null` and a directory for temporary files.
    for directory in ["proc", "dev", "tmp"] {
        std::fs::create_dir(path(directory)).unwrap();
    }
    std::fs::write(path("dev/null"), "").unwrap();
    let job = "--mount-proc /manager start --state-dir /state /manager run /manager --version";
    assert!(inside(job).ok().starts_with("custom 2.1.0 ("), "the job's output");
}
