//! The bill of materials of a manager: CycloneDX 1.6, JSON.
//!
//! It has no time and no random serial number, so that the same manifest and lock always give the same text.

use serde_json::{Map, Value, json};

use crate::generate;
use crate::resolve::{Package, PackageId, Resolved};

/// Returns the bill of materials. `checksum` returns the SHA-256 of packages that don't come from a registry.
pub(crate) fn sbom(
    resolved: &Resolved,
    name: &str,
    version: &str,
    checksum: impl Fn(&Package) -> Option<String>,
) -> Value {
    let mut packages: Vec<&Package> = resolved.reachable().collect();
    packages.sort_by_cached_key(|package| (package.name.to_string(), package.version.to_string()));
    let root = purl(name, version);
    let components: Vec<Value> =
        packages.iter().map(|package| component(package, resolved, &checksum)).collect();
    let mut dependencies = vec![depends(&root, resolved.root(), resolved)];
    for package in &packages {
        dependencies.push(depends(&reference(package), &package.id, resolved));
    }
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
            },
            "tools": { "components": [{
                "type": "application",
                "name": "jobtap",
                "version": env!("CARGO_PKG_VERSION"),
            }] },
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn reference(package: &Package) -> String {
    let purl = purl(&package.name, &package.version.to_string());
    match package.source.as_ref().and_then(|source| repository(&source.repr)) {
        Some(url) => format!("{purl}?repository_url={}", encoded(url)),
        None => purl,
    }
}

/// Returns the registry of a package, unless it is crates.io, the default of a package URL. Without it, a
/// scanner would take the crate for the crate of the same name on crates.io.
fn repository(source: &str) -> Option<&str> {
    if source.contains("crates.io-index") || generate::registry_of(source).is_some() {
        return None;
    }
    source.strip_prefix("registry+").or_else(|| source.strip_prefix("sparse+"))
}

/// Encodes a text for the qualifiers of a package URL.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

fn component(
    package: &Package,
    resolved: &Resolved,
    checksum: &impl Fn(&Package) -> Option<String>,
) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    put("type", json!("library"));
    put("bom-ref", json!(reference(package)));
    put("name", json!(package.name));
    put("version", json!(package.version));
    if let Some(description) = &package.description {
        put("description", json!(description.trim()));
    }
    let sum = resolved.checksum(package).cloned().or_else(|| checksum(package));
    if let Some(sum) = sum {
        put("hashes", json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(license) = &package.license {
        // Cargo once wrote `MIT/Apache-2.0`, which isn't SPDX.
        put("licenses", json!([{ "expression": license.replace('/', " OR ") }]));
    }
    if !package.authors.is_empty() {
        let authors: Vec<Value> =
            package.authors.iter().map(|name| json!({ "name": name })).collect();
        put("authors", json!(authors));
    }
    put("purl", json!(reference(package)));
    Value::Object(map)
}

fn depends(reference_of: &str, id: &PackageId, resolved: &Resolved) -> Value {
    let ids = resolved.dependencies(id).iter();
    let mut on: Vec<String> =
        ids.filter_map(|id| resolved.packages.get(id)).map(reference).collect();
    on.sort();
    on.dedup();
    json!({ "ref": reference_of, "dependsOn": on })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_other_registries_name_them() {
        let other = "sparse+https://crates.site.example/index/";
        assert_eq!(
            repository(other).map(encoded).as_deref(),
            Some("https%3A%2F%2Fcrates.site.example%2Findex%2F")
        );
        assert_eq!(repository("registry+file:///index"), Some("file:///index"));
        assert_eq!(repository("registry+https://github.com/rust-lang/crates.io-index"), None);
        assert_eq!(repository("sparse+https://directory-1.jobtap.invalid/"), None);
    }
}
