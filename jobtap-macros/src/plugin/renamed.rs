//! A dependency on the SDK under another name, found in the manifest of the author's crate.
//!
//! Generated code names the SDK `::jobtap_core`. Without this look at the manifest, an author who has renamed
//! it would get an error about an unresolved path for each generated item.

use std::path::Path;

const SDK: &str = "jobtap-core";

/// The name of the SDK in the manifest of the crate that is compiled, if it is not the usual one.
pub(crate) fn name() -> Option<String> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")?;
    name_in(&std::fs::read_to_string(Path::new(&folder).join("Cargo.toml")).ok()?)
}

/// Knows only the usual ways to write it: with any other manifest, the author gets the compiler's errors.
fn name_in(manifest: &str) -> Option<String> {
    let mut table = "";
    let mut found = None;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim().trim_matches('"'), value.trim());
        let is_sdk = |text: &str| {
            text.trim_start().strip_prefix('=').is_some_and(|text| {
                text.trim_start().trim_start_matches('"').starts_with(&format!("{SDK}\""))
            })
        };
        let in_dependencies = table.ends_with("dependencies");
        let in_own_table = table.rsplit_once("dependencies.").map(|(_, name)| name);
        if (in_dependencies && key == SDK) || in_own_table == Some(SDK) {
            return None;
        }
        if in_dependencies && value.starts_with('{') && value.split("package").skip(1).any(is_sdk) {
            found = Some(key.to_owned());
        } else if let Some(name) = in_own_table
            && key == "package"
            && value.trim_matches('"') == SDK
        {
            found = Some(name.trim_matches('"').to_owned());
        }
    }
    found.map(|name| name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_sdk_is_found() {
        let renamed = |text: &str| name_in(&format!("[package]\nname = \"site\"\n\n{text}"));
        for text in [
            "[dependencies]\nserde = \"1\"\nmy-sdk = { version = \"0.1\", package = \"jobtap-core\" }",
            "[dependencies]\nmy-sdk = { package=\"jobtap-core\", path = \"x\" }",
            "[dependencies.my-sdk]\nversion = \"0.1\"\npackage = \"jobtap-core\"",
            "[target.'cfg(unix)'.dependencies]\nmy-sdk = { package = \"jobtap-core\" }",
        ] {
            assert_eq!(renamed(text).as_deref(), Some("my_sdk"), "{text}");
        }
        for text in [
            "[dependencies]\njobtap-core = \"0.2\"",
            "[dependencies]\njobtap-core = { package = \"jobtap-core\" }",
            "[dependencies.jobtap-core]\nversion = \"0.1\"",
            "[dependencies]\nmacros = { package = \"jobtap-core-macros\" }",
            "[dependencies]\nserde = \"1\"",
            "not a manifest",
        ] {
            assert_eq!(renamed(text), None, "{text}");
        }
    }
}
