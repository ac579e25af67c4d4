//! Hosts other than jobtap's own manager: Flux and Slurm load a shared library with chosen plugins.
//!
//! The plugin crates are the same as for a manager. Only the crate around them differs: it is a library that
//! links the host's adapter and exports the functions that the host calls.

use std::path::Path;

use super::error::BuildError;
use crate::composition::Host;

impl Host {
    /// The name of its adapter's folder and crate.
    pub(super) fn adapter(self) -> &'static str {
        match self {
            Host::Flux => "jobtap-flux",
            Host::SlurmJobSubmit | Host::SlurmPrep => "jobtap-slurm",
        }
    }

    /// The features of the adapter that bind it to the host.
    pub(super) fn features(self) -> &'static [&'static str] {
        match self {
            // Flux's functions are found when it loads the file.
            Host::Flux => &[],
            // Needs the headers of the Slurm that the file is built for.
            Host::SlurmJobSubmit | Host::SlurmPrep => &["binding"],
        }
    }

    /// The prefix of its file names. Slurm finds its plugins by such names.
    fn prefix(self) -> &'static str {
        match self {
            Host::Flux => "",
            Host::SlurmJobSubmit => "job_submit_",
            Host::SlurmPrep => "prep_",
        }
    }

    /// The name of the file with plugins of this name.
    pub fn file_name(self, name: &str) -> String {
        format!("{}{name}.so", self.prefix())
    }

    /// The name of the plugins in a file of this name.
    ///
    /// # Errors
    /// When the host wouldn't find the file by this name.
    pub fn name_in(self, file: &Path) -> Result<&str, BuildError> {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix(".so"));
        let name = name.and_then(|name| name.strip_prefix(self.prefix()));
        name.filter(|name| !name.is_empty()).ok_or_else(|| {
            BuildError::refused(format!(
                "{}: {} finds its plugins by their files' names: name it {}",
                file.display(),
                self.kind(),
                self.file_name("NAME")
            ))
        })
    }

    /// The name of the generated crate. It ends in the host's name, so that it differs from the plugins' crates.
    pub(super) fn crate_name(self, name: &str) -> String {
        format!("{name}-in-{}", self.kind().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_finds_files_by_their_names() {
        let name = |host: Host, file: &str| host.name_in(Path::new(file)).map(str::to_owned);
        assert_eq!(name(Host::Flux, "x/fairshare.so").unwrap(), "fairshare");
        assert_eq!(name(Host::SlurmJobSubmit, "job_submit_site.so").unwrap(), "site");
        assert_eq!(name(Host::SlurmPrep, "prep_site.so").unwrap(), "site");
        let text = name(Host::SlurmJobSubmit, "site.so").unwrap_err().to_string();
        assert!(text.ends_with("name it job_submit_NAME.so"), "{text}");
        assert!(name(Host::Flux, "fairshare").is_err());
        assert!(name(Host::SlurmPrep, "prep_.so").is_err());
        for host in [Host::Flux, Host::SlurmJobSubmit, Host::SlurmPrep] {
            assert_eq!(name(host, &host.file_name("site")).unwrap(), "site");
            // Otherwise cargo would take it for the plugin of the same name.
            assert_ne!(host.crate_name("site"), "site");
        }
    }
}
