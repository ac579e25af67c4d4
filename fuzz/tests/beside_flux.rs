//! Idsets and hostlists beside those of Flux: a text that we take, Flux takes as the same ids or hosts. We refuse some that
//! Flux takes: empty items of idsets, and brackets or numbers of hostlists that don't fit.
//!
//! Skipped where no Flux is installed. `JOBTAP_FUZZ_INPUTS` and `JOBTAP_FUZZ_SEED` as in `inputs.rs`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_domain::resource::{Hostlist, Idset};
use jobtap_fuzz::target;
use serde_json::json;

mod common;

use common::{inputs, number};

/// Reads texts as lines of JSON, and prints for each the ids or hosts that Flux reads, or null.
const SCRIPT: &str = r#"
import json, sys
from flux.hostlist import Hostlist
from flux.idset import IDset
for line in sys.stdin:
    kind, text = json.loads(line)
    try:
        print(json.dumps([str(one) for one in (IDset(text) if kind == "idset" else Hostlist(text))]))
    except (ValueError, TypeError, OSError):
        print("null")
"#;

/// Whether Flux can be asked: its sets of large ids take gigabytes, and its functions take texts of C.
fn is_small_text(text: &str) -> bool {
    let digits = |part: &str| part.trim_start_matches('0').len();
    let small = text.split(|c: char| !c.is_ascii_digit()).all(|part| digits(part) < 5);
    small && text.len() < 200 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// The ids or hosts; `None` if the text is refused.
fn ours(kind: &str, text: &str) -> Option<Vec<String>> {
    match kind {
        "idset" => Some(text.parse::<Idset>().ok()?.iter().map(|id| id.to_string()).collect()),
        _ => Some(text.parse::<Hostlist>().ok()?.iter().collect()),
    }
}

#[test]
fn idsets_and_hostlists_are_those_of_flux() {
    let find = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/flux");
    let found = Command::new(find).output().unwrap();
    if !found.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&found.stderr).trim_end());
        return;
    }
    let flux = String::from_utf8(found.stdout).unwrap();
    let (count, seed) = (number("JOBTAP_FUZZ_INPUTS", 2000), number("JOBTAP_FUZZ_SEED", 1));
    let mut asked = Vec::new();
    for kind in ["idset", "hostlist"] {
        let texts = inputs(target(kind).unwrap(), count, seed);
        let texts = texts.filter_map(|bytes| String::from_utf8(bytes).ok());
        asked.extend(texts.filter(|text| is_small_text(text)).map(|text| (kind, text)));
    }
    let mut python = Command::new(flux.trim_end())
        .args(["python", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String =
        asked.iter().map(|(kind, text)| json!([kind, text]).to_string() + "\n").collect();
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), asked.len(), "Flux has not answered all");
    let mut taken = 0;
    let mut others = Vec::new();
    for ((kind, text), answer) in asked.iter().zip(answers.lines()) {
        let Some(ours) = ours(kind, text) else { continue };
        taken += 1;
        let flux: Option<Vec<String>> = serde_json::from_str(answer).unwrap();
        if flux.as_ref() != Some(&ours) {
            others.push(format!("{kind} {text:?}: {ours:?}, but Flux has {flux:?}"));
        }
    }
    assert!(taken > asked.len() / 10, "only {taken} of {} are taken", asked.len());
    assert!(
        others.is_empty(),
        "{} of {} differ:\n{}",
        others.len(),
        asked.len(),
        others.join("\n")
    );
}
