//! The bill of materials of a manager: CycloneDX 1.6, JSON.
//!
//! Without a time and a random serial number, so that one manifest and lock give one text.

use serde_json::{Map, Value, json};

use super::resolve::{Package, Resolved};

/// The bill of materials. `checksum` gives SHA-256 of packages that no registry has.
pub(super) fn sbom(
    resolved: &Resolved,
    name: &str,
    version: &str,
    checksum: impl Fn(&Package) -> Option<String>,
) -> Value {
    let mut packages: Vec<&Package> = resolved.reachable().collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
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
    purl(&package.name, &package.version)
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
        // An older form of cargo's, which SPDX doesn't know.
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

fn depends(reference_of: &str, id: &str, resolved: &Resolved) -> Value {
    let ids = resolved.dependencies(id).iter();
    let mut on: Vec<String> =
        ids.filter_map(|id| resolved.packages.get(id)).map(reference).collect();
    on.sort();
    on.dedup();
    json!({ "ref": reference_of, "dependsOn": on })
}
