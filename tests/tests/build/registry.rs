//! Plugins can come from a site's own registry: the newest matching version is used and recorded with its checksum.
//! Nothing is compiled, and cargo's configuration replaces the registry by a mirror on disk.

use jobtap_tests::site::Site;
use serde_json::Value;

const INDEX: &str = "sparse+https://crates.site.example/index/";

const TEXT: &str = "[manager]\nname = \"site-manager\"\n\n[registries]\nsite = \"sparse+https://crates.site.example/index/\"\n\n[[plugin]]\nname = \"probe\"\nversion = \"0.1\"\nregistry = \"site\"\n";

/// Returns the made-up checksum of a version of `probe`, which repeats one digit.
fn checksum(digit: &str) -> String {
    digit.repeat(64)
}

/// Makes a site whose registry has two versions of `probe` that the manifest allows, and one that it doesn't.
fn site() -> Site {
    let site = Site::with_plugins();
    let config = format!(
        "[source.site]\nregistry = \"{INDEX}\"\n\
         replace-with = \"mirror\"\n\n[source.mirror]\ndirectory = \"mirror\"\n"
    );
    site.write(".cargo/config.toml", &config);
    let manifest = site.read("crates/probe-0.1.0/Cargo.toml");
    let source = site.read("crates/probe-0.1.0/src/lib.rs");
    for (version, digit) in [("0.1.2", "2"), ("0.1.3", "3"), ("0.2.0", "4")] {
        let file = |name: &str| format!("mirror/probe-{version}/{name}");
        site.write(&file("Cargo.toml"), &manifest.replace("0.1.0", version));
        site.write(&file("src/lib.rs"), &source);
        let sum = format!("{{\"files\":{{}},\"package\":\"{}\"}}", checksum(digit));
        site.write(&file(".cargo-checksum.json"), &sum);
    }
    site.write("jobtap-build.toml", TEXT);
    site
}

#[test]
fn the_newest_matching_version_is_built_and_recorded() {
    let site = site();
    let explained = site.build("explain probe").ok();
    assert!(explained.starts_with(&format!("probe (probe 0.1.3, {INDEX})\n")), "{explained}");
    site.build("--print-crate ejected").ok();

    let lock = site.read("ejected/Cargo.lock");
    let entry = format!(
        "name = \"probe\"\nversion = \"0.1.3\"\nsource = \"{INDEX}\"\nchecksum = \"{}\"\n",
        checksum("3")
    );
    assert!(lock.contains(&entry), "{lock}");
    // The registry of the manifest is also in the generated crate.
    let config = site.read("ejected/.cargo/config.toml");
    assert!(config.contains(&format!("[registries.site]\nindex = \"{INDEX}\"\n")), "{config}");
    // The binary would print this with `plugin available`.
    let text = site.read("ejected/composition.txt");
    let composition: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    let find = |list: &Value| {
        let all = list.as_array().unwrap().iter();
        all.filter(|entry| entry["name"] == "probe").cloned().collect::<Vec<_>>()
    };
    let [probe] = &find(&composition["crates"])[..] else { panic!("{composition}") };
    assert_eq!((&probe["version"], &probe["source"]), (&"0.1.3".into(), &INDEX.into()));
    assert_eq!(probe["checksum"], checksum("3"));
    let [component] = &find(&composition["sbom"]["components"])[..] else { panic!("one") };
    assert_eq!(component["hashes"][0]["content"], checksum("3"));
    let purl = "pkg:cargo/probe@0.1.3?repository_url=https%3A%2F%2Fcrates.site.example%2Findex%2F";
    assert_eq!(component["purl"], purl);
}

#[test]
fn the_lock_pins_a_version_until_the_manifest_changes() {
    let site = site();
    site.write("jobtap-build.toml", &TEXT.replace("\"0.1\"", "\"=0.1.2\""));
    site.build("--print-crate ejected").ok();
    site.write("jobtap-build.lock", &site.read("ejected/Cargo.lock"));
    site.write("jobtap-build.toml", TEXT);
    let version = |options: &str| {
        let told = site.build(&format!("explain probe {options}"));
        told.stdout.split(',').next().unwrap_or_default().to_owned() + &told.stderr
    };
    assert_eq!(version("--locked"), "probe (probe 0.1.2");
    site.write("jobtap-build.toml", &TEXT.replace("\"0.1\"", "\"0.2\""));
    let refused = version("--locked");
    assert!(refused.contains("--locked: the lock does not fit the manifest"), "{refused}");
    assert_eq!(version(""), "probe (probe 0.2.0");
}
