//! Named output formats: the builtin formats of a command, and those that users define in configuration files
//! as in Flux.

use std::ffi::OsString;

use serde_json::Value;

use super::files::ConfigFile;
use crate::cli::common::message::CliError;

/// An output format with a name and a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFormat {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) format: String,
}

/// A mistake in a configuration file.
#[derive(Debug, thiserror::Error)]
enum ConfigFault {
    #[error("invalid key {0}")]
    UnknownKey(String),
    #[error("the 'formats' key must be a mapping")]
    Formats,
    #[error("'formats.{0}' must be a mapping")]
    Format(String),
    #[error("formats.{0}: required key 'format' missing")]
    NoFormat(String),
    #[error("formats.{0}: 'format' key must be a string")]
    FormatType(String),
    #[error("override of builtin format '{0}' not permitted")]
    Builtin(String),
}

/// The formats that `-o NAME` can select in one command.
#[derive(Debug, Clone)]
pub(crate) struct NamedFormats {
    command: &'static str,
    /// The subcommand to which the formats belong, if the command has several that list something.
    subcommand: Option<&'static str>,
    /// Other keys that may stand beside the formats, and are read elsewhere.
    other_keys: &'static [&'static str],
    formats: Vec<NamedFormat>,
    /// The number of builtin formats, which come first.
    builtin: usize,
}

impl NamedFormats {
    /// The builtin formats of `command`, each given as name, description and format.
    pub(crate) fn builtin(command: &'static str, formats: &[(&str, &str, &str)]) -> Self {
        let formats: Vec<NamedFormat> = formats
            .iter()
            .map(|&(name, description, format)| NamedFormat {
                name: name.to_owned(),
                description: description.to_owned(),
                format: format.to_owned(),
            })
            .collect();
        NamedFormats { command, subcommand: None, other_keys: &[], builtin: formats.len(), formats }
    }

    /// The command whose formats these are.
    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Makes these the formats of a subcommand, which `[SUBCOMMAND.formats.NAME]` and
    /// `JOBTAP_COMMAND_SUBCOMMAND_FORMAT_DEFAULT` configure.
    pub(crate) fn of_subcommand(mut self, subcommand: &'static str) -> Self {
        self.subcommand = Some(subcommand);
        self
    }

    /// Accepts other keys beside the formats in configuration files.
    pub(crate) fn beside(mut self, keys: &'static [&'static str]) -> Self {
        self.other_keys = keys;
        self
    }

    /// Adds the formats of configuration files, and the default format of the environment. `JOBTAP_...` takes
    /// precedence over `FLUX_...`.
    ///
    /// # Errors
    /// A configuration file is invalid; the text names the file and the key.
    pub(crate) fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CliError> {
        for file in ConfigFile::all(self.command, &variable)? {
            let config = match self.subcommand {
                None => Some(&file.config),
                Some(subcommand) => file.config.get(subcommand),
            };
            config.map_or(Ok(()), |c| self.add_config(c)).map_err(|error| file.refuse(&error))?;
        }
        let words = [Some(self.command), self.subcommand].into_iter().flatten();
        let words: Vec<String> = words.map(str::to_uppercase).collect();
        let suffix = format!("_{}_FORMAT_DEFAULT", words.join("_"));
        let default = ["JOBTAP", "FLUX"]
            .into_iter()
            .filter_map(|prefix| variable(&format!("{prefix}{suffix}")))
            .find(|value| !value.is_empty());
        if let Some(default) = default {
            let format = self.resolve(&default.to_string_lossy())?.to_owned();
            self.set("default", "From the environment", format);
        }
        Ok(self)
    }

    fn add_config(&mut self, config: &Value) -> Result<(), ConfigFault> {
        for (key, value) in config.as_object().into_iter().flatten() {
            if self.other_keys.contains(&key.as_str()) {
                continue;
            }
            if key != "formats" {
                let table = self.subcommand.map(|table| format!("{table}.")).unwrap_or_default();
                return Err(ConfigFault::UnknownKey(format!("{table}{key}")));
            }
            let formats = value.as_object().ok_or(ConfigFault::Formats)?;
            for (name, entry) in formats {
                let bad = |fault: fn(String) -> ConfigFault| fault(name.clone());
                let entry = entry.as_object().ok_or_else(|| bad(ConfigFault::Format))?;
                let format = entry.get("format").ok_or_else(|| bad(ConfigFault::NoFormat))?;
                let format = format.as_str().ok_or_else(|| bad(ConfigFault::FormatType))?;
                if self.formats.iter().take(self.builtin).any(|builtin| builtin.name == *name) {
                    return Err(bad(ConfigFault::Builtin));
                }
                let description = entry.get("description").and_then(Value::as_str);
                self.set(name, description.unwrap_or_default(), format.to_owned());
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, description: &str, format: String) {
        let (name, description) = (name.to_owned(), description.to_owned());
        let new = NamedFormat { name, description, format };
        match self.formats.iter_mut().find(|known| known.name == new.name) {
            Some(known) => *known = new,
            None => self.formats.push(new),
        }
    }

    fn find(&self, name: &str) -> Option<&NamedFormat> {
        self.formats.iter().find(|format| format.name == name)
    }

    /// The format for the argument of `-o`, which is a format or the name of one.
    ///
    /// # Errors
    /// There is no format of that name.
    pub(crate) fn resolve<'a>(&'a self, text: &'a str) -> Result<&'a str, CliError> {
        if text.contains('{') {
            return Ok(text);
        }
        self.find(text).map(|format| format.format.as_str()).ok_or_else(|| no_such_format(text))
    }

    /// The list that `-o help` prints.
    pub(crate) fn help(&self, prog_name: &str) -> String {
        let longest = self.formats.iter().map(|format| format.name.chars().count()).max();
        let width = longest.unwrap_or(0).max(12);
        let mut text = format!("\nConfigured {prog_name} output formats:\n\n");
        for NamedFormat { name, description, .. } in &self.formats {
            text += format!("  {name:<width$} {description}").trim_end();
            text.push('\n');
        }
        text
    }

    /// The configuration file entry that `-o get-config=NAME` prints.
    ///
    /// # Errors
    /// There is no format of that name.
    pub(crate) fn config_of(&self, name: &str) -> Result<String, CliError> {
        let no_such_format = || CliError::failure(format!("--format: No such format {name}"));
        let format = self.find(name).ok_or_else(no_such_format)?;
        let mut entry = toml::Table::new();
        if !format.description.is_empty() {
            entry.insert("description".to_owned(), format.description.clone().into());
        }
        entry.insert("format".to_owned(), format.format.clone().into());
        let formats = toml::Table::from_iter([(name.to_owned(), toml::Value::Table(entry))]);
        let mut config =
            toml::Table::from_iter([("formats".to_owned(), toml::Value::Table(formats))]);
        if let Some(subcommand) = self.subcommand {
            config = toml::Table::from_iter([(subcommand.to_owned(), toml::Value::Table(config))]);
        }
        Ok(config.to_string())
    }
}

fn no_such_format(name: &str) -> CliError {
    let meant = with_braces(name);
    CliError::failure(format!("--format: No such format {name} (Did you mean '{meant}'?)"))
}

/// The text with each of its words as a field.
fn with_braces(text: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut fields = String::new();
    let mut in_word = false;
    for c in text.chars() {
        if is_of_word(c) != in_word {
            fields.push(if in_word { '}' } else { '{' });
            in_word = !in_word;
        }
        fields.push(c);
    }
    if in_word {
        fields.push('}');
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats() -> NamedFormats {
        let builtin = [("default", "The default", "{id}"), ("long", "More", "{id} {name}")];
        NamedFormats::builtin("jobs", &builtin)
    }

    #[test]
    fn each_word_becomes_a_field() {
        for (text, fields) in [
            ("id", "{id}"),
            ("id,name", "{id},{name}"),
            ("sched.t_estimate id", "{sched.t_estimate} {id}"),
            ("", ""),
        ] {
            assert_eq!(with_braces(text), fields);
        }
    }

    /// The formats with a configuration file in the user's directory, whose text is `text`.
    fn configured(text: &str, extra: &[(&str, &str)]) -> Result<NamedFormats, CliError> {
        configured_in("flux-jobs.toml", text, extra)
    }

    fn configured_in(
        file: &str,
        text: &str,
        extra: &[(&str, &str)],
    ) -> Result<NamedFormats, CliError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("flux")).unwrap();
        std::fs::write(home.path().join("flux").join(file), text).unwrap();
        let loaded = formats().with_environment(|name| match name {
            "XDG_CONFIG_HOME" => Some(home.path().into()),
            "XDG_CONFIG_DIRS" => Some(home.path().join("none").into()),
            _ => extra.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()),
        });
        let prefix = format!("{}/flux/", home.path().display());
        loaded.map_err(|error| CliError { text: error.text.replace(&prefix, ""), ..error })
    }

    #[test]
    fn a_name_or_a_format_is_accepted() {
        assert_eq!(formats().resolve("long").unwrap(), "{id} {name}");
        assert_eq!(formats().resolve("{x}").unwrap(), "{x}");
        let error = formats().resolve("lng").unwrap_err();
        assert_eq!(error.text, "--format: No such format lng (Did you mean '{lng}'?)");
    }

    #[test]
    fn configuration_files_add_formats() {
        let text = "[formats.mine]\ndescription = \"Mine\"\nformat = \"{name}\"\n";
        let formats = configured(text, &[]).unwrap();
        assert_eq!(formats.resolve("mine").unwrap(), "{name}");
        assert_eq!(formats.config_of("mine").unwrap(), text);
        let help = formats.help("flux-jobs");
        assert!(help.contains("\n  default      The default\n"));
        assert!(help.contains("\n  mine         Mine\n"));
    }

    #[test]
    fn a_configuration_file_may_be_yaml_or_json() {
        for (file, text) in [
            ("flux-jobs.yaml", "formats:\n  mine:\n    description: Mine\n    format: '{name}'\n"),
            ("flux-jobs.json", r#"{"formats": {"mine": {"format": "{name}"}}}"#),
        ] {
            assert_eq!(configured_in(file, text, &[]).unwrap().resolve("mine").unwrap(), "{name}");
        }
        let error = configured_in("flux-jobs.yaml", "formats: [", &[]).unwrap_err().text;
        assert!(error.starts_with("flux-jobs.yaml: "), "{error}");
    }

    #[test]
    fn jobtap_variable_takes_precedence_over_flux() {
        let flux = ("FLUX_JOBS_FORMAT_DEFAULT", "long");
        assert_eq!(configured("", &[flux]).unwrap().resolve("default").unwrap(), "{id} {name}");
        let ours = ("JOBTAP_JOBS_FORMAT_DEFAULT", "{urgency}");
        let formats = configured("", &[flux, ours]).unwrap();
        assert_eq!(formats.resolve("default").unwrap(), "{urgency}");
        assert!(configured("", &[("FLUX_JOBS_FORMAT_DEFAULT", "nope")]).is_err());
    }

    #[test]
    fn a_subcommand_has_its_own_formats() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("flux")).unwrap();
        let text = "[list.formats.mine]\nformat = \"{queue}\"\n[status]\nx = 1\n";
        std::fs::write(home.path().join("flux/flux-queue.toml"), text).unwrap();
        let formats = NamedFormats::builtin("queue", &[("default", "", "{queuem}")]);
        let variables = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(home.path().into()),
            "FLUX_QUEUE_LIST_FORMAT_DEFAULT" => Some("mine".into()),
            _ => None,
        };
        let formats = formats.of_subcommand("list").with_environment(variables).unwrap();
        assert_eq!(formats.resolve("default").unwrap(), "{queue}");
        assert!(formats.config_of("mine").unwrap().starts_with("[list.formats.mine]\n"));
    }

    #[test]
    fn invalid_configuration_files_are_refused_with_a_message() {
        for (text, message) in [
            ("[other]", "invalid key other"),
            ("formats = 1", "the 'formats' key must be a mapping"),
            ("[formats]\nx = 1", "'formats.x' must be a mapping"),
            ("[formats.x]", "formats.x: required key 'format' missing"),
            ("[formats.x]\nformat = 1", "formats.x: 'format' key must be a string"),
            ("[formats.long]\nformat = \"\"", "override of builtin format 'long' not permitted"),
        ] {
            let error = configured(text, &[]).unwrap_err().text;
            assert_eq!(error, format!("flux-jobs.toml: {message}"));
        }
    }
}
