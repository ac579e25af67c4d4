//! `jobtap build` refuses bad manifests before it compiles anything, and says what to do.
//!
//! Each directory of `build-refusals` is a site with a manifest; `options` has additional arguments, and
//! `refusal.txt` the expected message. `JOBTAP_BLESS=1` writes the messages again.

use std::fs;

use jobtap_tests::site::{Site, cache};
use jobtap_tests::workspace;

#[test]
fn each_refusal_names_the_plugin_and_the_remedy() {
    let root = workspace().join("tests/build-refusals");
    let mut cases: Vec<_> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|case| case.is_dir());
    cases.sort();
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let site = Site::new();
        site.copy(&format!("tests/build-refusals/{name}"), "");
        let options = fs::read_to_string(case.join("options")).unwrap_or_default();
        let output = site.build(&options);
        let place = fs::canonicalize(site.path("")).unwrap();
        let said = output.stderr.replace(&*place.to_string_lossy(), "$SITE");
        let said = said.replace(&*cache().to_string_lossy(), "$CACHE");
        // Cargo prints such a line when another cargo process runs at the same time.
        let waits = |line: &str| line.trim_start().starts_with("Blocking waiting for file lock");
        let said: String = said.split_inclusive('\n').filter(|line| !waits(line)).collect();
        let said = format!("exit code {}\n{}", output.code, said.replace("$SITE/./", "$SITE/"));
        let file = case.join("refusal.txt");
        if std::env::var_os("JOBTAP_BLESS").is_some() {
            fs::write(&file, &said).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            wrong.push(format!("{name}: said\n{said}\nand not\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
