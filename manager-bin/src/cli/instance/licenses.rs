//! `licenses`: the licenses of the crates that this program is made of. They ask to be shown with every copy of the
//! program, so they are a part of it.

use std::process::ExitCode;

use serde_json::Value;

use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::composition;

/// Options of `licenses`.
#[derive(Debug, clap::Args)]
pub(crate) struct LicensesArgs {
    /// Only list the crates: name, version and license
    #[arg(long)]
    list: bool,
}

/// A line for each crate, then after an empty line their texts. Made by a test from the lock file, see
/// `tests/tests/licenses.rs`.
const TEXT: &str = include_str!("licenses.txt");

/// Runs `licenses`.
pub(crate) fn run(args: LicensesArgs) -> ExitCode {
    session::run("licenses", Family::Compiled, async {
        let (list, texts) = TEXT.split_once("\n\n").unwrap_or((TEXT, ""));
        let mut text = format!("{list}\n");
        if let Some(own) = composition::own() {
            more(list, &own.sbom).into_iter().for_each(|line| text += &format!("{line}\n"));
        }
        if !args.list {
            text += "\n";
            text += texts;
        }
        session::print(&text)?;
        Ok(0)
    })
}

/// The crates of a bill of materials that aren't listed: those that a manager built by `jobtap build` has besides. Their
/// texts are in their packages.
fn more(list: &str, sbom: &Value) -> Vec<String> {
    let components = sbom.get("components").and_then(Value::as_array);
    let text = |component: &Value, path: &str| {
        component.pointer(path).and_then(Value::as_str).unwrap_or("unknown").to_owned()
    };
    let line = |component: &Value| {
        let [name, version] = ["/name", "/version"].map(|path| text(component, path));
        format!("{name} {version} {}", text(component, "/licenses/0/expression"))
    };
    let lines = components.into_iter().flatten().map(line);
    let is_other =
        |line: &String| !line.starts_with("jobtap-") && !list.lines().any(|known| known == line);
    lines.filter(is_other).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_of_plugins_are_listed_besides() {
        let component = |name: &str| json!({"name": name, "version": "1.0.0", "licenses": [{"expression": "MIT OR Apache-2.0"}]});
        let sbom = json!({"components": [
            component("jobtap-core"), component("serde"), component("their-plugin"), {"name": "x", "version": "2.0.0"},
        ]});
        let list = "serde 1.0.0 MIT OR Apache-2.0";
        let lines = ["their-plugin 1.0.0 MIT OR Apache-2.0", "x 2.0.0 unknown"];
        assert_eq!(more(list, &sbom), lines);
        assert_eq!(more(list, &json!(null)), [""; 0]);
    }
}
