//! `jobtap-build.toml`: what a custom manager is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobtap_daemon::composition::{Host, SDK_CRATES};
use jobtap_daemon::files::input;
use serde::{Deserialize, Serialize};

use crate::error::{BuildError, ManifestError, NameFault, Named, SyntaxFault};

/// The manifest of a custom manager.
///
/// ```
/// use jobtap_builder::Manifest;
///
/// let manifest = Manifest::parse("jobtap-build.toml", r#"
///     [manager]
///     name = "site-manager"
///     without = [".dependency-after"]
///
///     [[plugin]]
///     name = "deadline"
///     path = "../deadline"
///     config = { default = "2d" }
/// "#).unwrap();
/// assert_eq!(manifest.plugins[0].name, "deadline");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Settings of the manager as a whole.
    #[serde(default)]
    pub manager: ManagerTable,
    /// The plugin crates, in the order in which their plugins are called when nothing else decides.
    #[serde(default, rename = "plugin", skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginEntry>,
    /// The index URLs of registries that cargo's configuration doesn't name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registries: BTreeMap<String, String>,
    /// The manager's configuration, which its configuration files override.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub config: toml::Table,
}

/// `[manager]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ManagerTable {
    /// The binary's name.
    pub name: String,
    /// The binary's version.
    pub version: String,
    /// The host that loads the plugins; `None` builds a custom manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The checkout of jobtap to build with; `None` is the SDK that the building program carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<PathBuf>,
    /// The only builtin plugins to link; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtins: Option<Vec<String>>,
    /// Builtin plugins to leave out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Other parts to leave out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_parts: Vec<Part>,
    /// The target triple; `None` is this host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether the binary is linked statically. Default: yes, on Linux.
    #[serde(rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_link: Option<bool>,
    /// The toolchain, as rustup names it; `None` is the active one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// Whether to optimize, with fat LTO, which takes minutes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
}

impl Default for ManagerTable {
    fn default() -> Self {
        Self {
            name: "site-manager".to_owned(),
            version: "0.1.0".to_owned(),
            host: None,
            sdk: None,
            builtins: None,
            without: Vec::new(),
            without_parts: Vec::new(),
            target: None,
            static_link: None,
            toolchain: None,
            release: false,
        }
    }
}

/// What a manager can be built without, besides builtin plugins. A manager with fewer parts is smaller and
/// compiles faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The listener of `[http]`: the services over HTTP, the page for browsers and the metrics for Prometheus.
    Http,
    /// The commands `bench`, `build`, `new`, `policy`, `replay` and `simulate`, for those who write or choose
    /// plugins.
    Tools,
    /// The command `top`.
    Top,
}

impl Part {
    /// Returns the features of `jobtap-manager` for all parts but these.
    pub(crate) fn features_without(left_out: &[Self]) -> Vec<&'static str> {
        let all = [(Self::Http, "http"), (Self::Tools, "tools"), (Self::Top, "top")];
        let kept = all.into_iter().filter(|(part, _)| !left_out.contains(part));
        kept.map(|(_, feature)| feature).collect()
    }
}

/// A `[[plugin]]`: a crate with one or more plugins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PluginEntry {
    /// The crate's name.
    pub name: String,
    /// The version requirement, as in Cargo.toml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The crate's directory; relative to the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A directory of crates, as `cargo vendor` makes them; relative to the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The registry, by its name in [`Manifest::registries`] or in cargo's configuration; `None` is
    /// crates.io.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Features of the crate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Whether its default features are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_features: Option<bool>,
    /// Plugins that are called after those of this crate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Plugins that are called before those of this crate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The plugin's own configuration, short for `[config.plugins.NAME]`; for crates with one plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<toml::Table>,
}

impl PluginEntry {
    /// Returns the name of the crate's library in Rust code.
    pub(crate) fn library(&self) -> String {
        self.name.replace('-', "_")
    }
}

impl Manifest {
    /// Reads the text of a manifest. `place` names it in errors.
    ///
    /// # Errors
    /// When the text isn't a manifest; the error names the line. Or when a crate has two entries, two sources, or none.
    pub fn parse(place: &str, text: &str) -> Result<Self, ManifestError> {
        let manifest: Manifest = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
            let fault = match in_single_brackets(text) {
                true => SyntaxFault::SingleBrackets,
                false => SyntaxFault::Toml(Box::new(error)),
            };
            ManifestError::Syntax { place: place.to_owned(), line, fault }
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Reads a manifest's file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and when the file can't be read.
    pub fn read(file: &Path) -> Result<Self, BuildError> {
        let text = input::text(file).map_err(BuildError::file(file))?;
        Ok(Self::parse(&file.display().to_string(), &text)?)
    }

    /// Returns the manifest as a text.
    ///
    /// # Errors
    /// When the configuration has values that TOML can't express.
    pub fn to_text(&self) -> Result<String, ManifestError> {
        Ok(toml::to_string(self)?)
    }

    /// Checks what needs no other file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), for a manifest that has been changed.
    pub fn check(&self) -> Result<(), ManifestError> {
        let manager = &self.manager;
        check_name(Named::Manager, &manager.name)?;
        if let Err(reason) = semver::Version::parse(&manager.version) {
            return Err(ManifestError::Version { version: manager.version.clone(), reason });
        }
        if manager.builtins.is_some() && !manager.without.is_empty() {
            return Err(ManifestError::BuiltinsTwice);
        }
        if let Some(host) = manager.host {
            self.check_host(host)?;
        }
        for (name, index) in &self.registries {
            check_registry(name, index)?;
        }
        for (index, plugin) in self.plugins.iter().enumerate() {
            check_name(Named::Plugin, &plugin.name)?;
            if manager.host.is_none() && plugin.library() == manager.name.replace('-', "_") {
                return Err(ManifestError::ManagersName(plugin.name.clone()));
            }
            if self.plugins.iter().take(index).any(|other| other.library() == plugin.library()) {
                return Err(ManifestError::Twice(plugin.name.clone()));
            }
            check_source(plugin)?;
        }
        Ok(())
    }
}

impl Manifest {
    /// Refuses settings that only a custom manager can have.
    fn check_host(&self, host: Host) -> Result<(), ManifestError> {
        if self.manager.static_link == Some(true) {
            return Err(ManifestError::Static(host.kind()));
        }
        if !self.manager.without_parts.is_empty() {
            return Err(ManifestError::Parts(host.kind()));
        }
        let given = self.plugins.iter().any(|plugin| plugin.config.is_some());
        if given || !self.config.is_empty() {
            return Err(ManifestError::Config(host));
        }
        Ok(())
    }
}

/// Returns whether `plugin` is a table, for which the parser's own message doesn't mention the brackets.
fn in_single_brackets(text: &str) -> bool {
    let table: Result<toml::Table, _> = toml::from_str(text);
    table.is_ok_and(|table| table.get("plugin").is_some_and(toml::Value::is_table))
}

fn check_registry(name: &str, index: &str) -> Result<(), ManifestError> {
    let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    // Cargo sees directories of crates as registries of such names.
    if name.is_empty() || !word || name == "crates-io" || name.starts_with("directory-") {
        return Err(ManifestError::RegistryName(name.to_owned()));
    }
    if index.contains("://") {
        return Ok(());
    }
    Err(ManifestError::RegistryIndex { registry: name.to_owned(), index: index.to_owned() })
}

fn check_source(plugin: &PluginEntry) -> Result<(), ManifestError> {
    let places = [plugin.path.is_some(), plugin.directory.is_some(), plugin.registry.is_some()];
    if places.iter().filter(|given| **given).count() > 1 {
        return Err(ManifestError::ManySources(plugin.name.clone()));
    }
    match &plugin.version {
        None if plugin.path.is_none() => Err(ManifestError::NoSource(plugin.name.clone())),
        Some(version) => match semver::VersionReq::parse(version) {
            Ok(_) => Ok(()),
            Err(reason) => Err(ManifestError::PluginVersion {
                plugin: plugin.name.clone(),
                version: version.clone(),
                reason,
            }),
        },
        None => Ok(()),
    }
}

/// Refuses names that Cargo.toml and Rust code can't have.
pub(crate) fn check_name(named: Named, name: &str) -> Result<(), ManifestError> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let refuse = |fault| Err(ManifestError::Name { named, name: name.to_owned(), fault });
    if name.starts_with("jobtap-") && SDK_CRATES.contains(&name) {
        return refuse(NameFault::OfTheSdk);
    }
    if !(first && rest) {
        return refuse(NameFault::Malformed);
    }
    if KEYWORDS.contains(&name) {
        return refuse(NameFault::Keyword);
    }
    Ok(())
}

/// The keywords of edition 2024, and the words that it reserves.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(text: &str) -> String {
        Manifest::parse("m.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_manifest_is_the_plain_manager() {
        assert_eq!(Manifest::parse("m", "").unwrap(), Manifest::default());
    }

    #[test]
    fn errors_name_the_line() {
        let text = refusal("[manager]\nname = \"x\"\n\n[[plugin]]\nname = \"a\"\npaht = \".\"\n");
        assert!(text.starts_with("m.toml:6: unknown field `paht`, expected"), "{text}");
        let text = refusal("[manager]\n[plugin]\nname = \"a\"\n");
        assert!(text.starts_with("m.toml:2: ") && text.ends_with("write [[plugin]]"), "{text}");
    }

    #[test]
    fn a_manifest_can_be_of_a_file_for_another_host() {
        let host = |name: &str| format!("[manager]\nname = \"site\"\nhost = \"{name}\"\n");
        for (name, host_of) in [
            ("flux", Host::Flux),
            ("slurm-job-submit", Host::SlurmJobSubmit),
            ("slurm-prep", Host::SlurmPrep),
        ] {
            let manifest = Manifest::parse("m", &host(name)).unwrap();
            assert_eq!(manifest.manager.host, Some(host_of), "{name}");
        }
        let text = refusal(&host("slurm"));
        assert!(text.starts_with("m.toml:3: unknown variant `slurm`"), "{text}");
        let text = refusal(&(host("flux") + "static = true\n"));
        assert!(text.contains("can't be linked statically: leave `static` out"), "{text}");
        let text = refusal(&(host("flux") + "without-parts = [\"top\"]\n"));
        assert!(text.ends_with("loads plugins only: leave `without-parts` out"), "{text}");
        let config = "[[plugin]]\nname = \"a\"\npath = \".\"\nconfig = { x = 1 }\n";
        let text = refusal(&(host("slurm-prep") + config));
        assert!(text.contains("plugins are configured in jobtap.toml beside slurm.conf"), "{text}");
    }

    #[test]
    fn parts_can_be_left_out() {
        let features = |text: &str| {
            let manifest = Manifest::parse("m", text).unwrap();
            Part::features_without(&manifest.manager.without_parts)
        };
        assert_eq!(features(""), ["http", "tools", "top"]);
        assert_eq!(features("[manager]\nwithout-parts = [\"tools\"]"), ["http", "top"]);
        let text = refusal("[manager]\nwithout-parts = [\"submit\"]");
        let wanted = "m.toml:2: unknown variant `submit`, expected one of `http`, `tools`, `top`";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn a_crate_comes_from_one_place_once() {
        let text = refusal("[[plugin]]\nname = \"a\"");
        assert!(text.starts_with("plugin \"a\": where does it come from?"), "{text}");
        let text = refusal("[[plugin]]\nname = \"a\"\npath = \".\"\nregistry = \"site\"");
        assert!(text.contains("`path`, `directory` and `registry`"), "{text}");
        let text = refusal(
            "[[plugin]]\nname = \"a-b\"\npath=\".\"\n[[plugin]]\nname = \"a_b\"\npath=\"x\"",
        );
        assert!(text.contains("plugin \"a_b\" is there twice"), "{text}");
        let text = refusal("[[plugin]]\nname = \"a b\"\npath=\".\"");
        assert!(text.contains("is no crate's name"), "{text}");
        let text = refusal("[[plugin]]\nname = \"match\"\npath=\".\"");
        assert!(text.contains("is a keyword of Rust"), "{text}");
        let text = refusal("[[plugin]]\nname = \"a\"\nversion=\"one\"");
        assert!(text.starts_with("plugin \"a\": version \"one\": "), "{text}");
        let text = refusal("[registries]\nsite = \"crates.site.example\"");
        assert!(text.contains("site: \"crates.site.example\" is no index"), "{text}");
        let text = refusal("[registries]\ncrates-io = \"https://site.example\"");
        assert!(text.contains("\"crates-io\" can't be a registry's name"), "{text}");
        let text = refusal("[manager]\nbuiltins = []\nwithout = [\".x\"]");
        assert!(text.contains("use one of the two"), "{text}");
    }

    fn entries() -> impl Strategy<Value = Manifest> {
        let words = || prop::collection::vec("[a-z.-]{1,8}", 0..3);
        let entry = ("[a-z][a-z0-9]{0,8}", "[0-9]\\.[0-9]", words(), words(), any::<bool>());
        let plugins = prop::collection::vec(entry, 0..4);
        let parts = vec![Part::Http, Part::Tools, Part::Top];
        let parts = prop::sample::subsequence(parts, 0..=3);
        (plugins, prop::option::of(words()), any::<Option<bool>>(), parts).prop_map(
            |(plugins, builtins, static_link, without_parts)| {
                let manager = ManagerTable {
                    builtins,
                    static_link,
                    without_parts,
                    ..ManagerTable::default()
                };
                let plugin = |(index, (name, version, features, before, on))| PluginEntry {
                    name: format!("{name}{index}"),
                    version: Some(version),
                    features,
                    before,
                    default_features: Some(on),
                    config: Some(toml::Table::from_iter([("k".to_owned(), true.into())])),
                    ..PluginEntry::default()
                };
                let plugins = plugins.into_iter().enumerate().map(plugin).collect();
                let index = "sparse+https://crates.site.example/".to_owned();
                let registries = BTreeMap::from([("site".to_owned(), index)]);
                Manifest { manager, plugins, registries, config: toml::Table::new() }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(manifest in entries()) {
            let text = manifest.to_text().unwrap();
            prop_assert_eq!(Manifest::parse("m", &text).unwrap(), manifest);
        }

        #[test]
        fn any_text_is_read_or_refused_by_its_place(
            text in ".*|(\\[manager\\]\n)?((name|without|release|x) = (\"a\"|\\[\\]|true)\n){0,3}(\\[\\[plugin\\]\\]\n)?",
        ) {
            match Manifest::parse("the-file", &text) {
                Ok(manifest) => {
                    let written = manifest.to_text().unwrap();
                    prop_assert_eq!(Manifest::parse("m", &written).unwrap(), manifest);
                }
                Err(ManifestError::Syntax { place, line, .. }) => {
                    prop_assert_eq!(place, "the-file");
                    prop_assert!((1..=text.lines().count() + 1).contains(&line), "{}", line);
                }
                Err(error) => {
                    let text = error.to_string();
                    prop_assert!(text.contains("[manager]") || text.contains("plugin"), "{}", text);
                }
            }
        }
    }
}
