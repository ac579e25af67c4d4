//! Hosts other than jobtap's own manager: Flux and Slurm load a shared library with chosen plugins.
//!
//! The plugin crates are the same as for a manager. Only the crate around them differs: it is a library that
//! links the host's adapter and exports the functions that the host calls.

use std::path::Path;

use jobtap_daemon::composition::Host;

use crate::error::PlaceError;

/// The library that a host loads: the adapter in it, and how its file is named.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    host: Host,
    /// The name of the adapter's folder and crate.
    pub(crate) adapter: &'static str,
    /// The features of the adapter that bind it to the host.
    pub(crate) features: &'static [&'static str],
    /// How the file's name begins. Slurm finds its plugins by such names.
    prefix: &'static str,
}

impl Library {
    /// The library for this host.
    pub fn for_host(host: Host) -> Self {
        let (adapter, features, prefix): (_, &[_], _) = match host {
            // Flux's functions are found when it loads the file.
            Host::Flux => ("jobtap-flux", &[], ""),
            // Needs the headers of the Slurm that the file is built for.
            Host::SlurmJobSubmit => ("jobtap-slurm", &["binding"], "job_submit_"),
            Host::SlurmPrep => ("jobtap-slurm", &["binding"], "prep_"),
        };
        Self { host, adapter, features, prefix }
    }

    /// The name of the file with plugins of this name.
    ///
    /// ```
    /// use jobtap_builder::{Host, Library};
    ///
    /// assert_eq!(Library::for_host(Host::SlurmPrep).file_name("site"), "prep_site.so");
    /// ```
    pub fn file_name(&self, name: &str) -> String {
        format!("{}{name}.so", self.prefix)
    }

    /// The name of the plugins in a file of this name.
    ///
    /// # Errors
    /// When the host wouldn't find the file by this name.
    pub fn name_in<'f>(&self, file: &'f Path) -> Result<&'f str, PlaceError> {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix(".so"));
        let name = name.and_then(|name| name.strip_prefix(self.prefix));
        name.filter(|name| !name.is_empty()).ok_or_else(|| PlaceError::NotFoundByHost {
            output: file.to_path_buf(),
            host: self.host.kind(),
            form: self.file_name("NAME"),
        })
    }

    /// The name of the generated crate. It ends in the host's name, so that it differs from the plugins' crates.
    pub(crate) fn crate_name(&self, name: &str) -> String {
        format!("{name}-in-{}", self.host.kind().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_finds_files_by_their_names() {
        let name =
            |host, file: &str| Library::for_host(host).name_in(Path::new(file)).map(str::to_owned);
        assert_eq!(name(Host::Flux, "x/fairshare.so").unwrap(), "fairshare");
        assert_eq!(name(Host::SlurmJobSubmit, "job_submit_site.so").unwrap(), "site");
        assert_eq!(name(Host::SlurmPrep, "prep_site.so").unwrap(), "site");
        let text = name(Host::SlurmJobSubmit, "site.so").unwrap_err().to_string();
        assert!(text.ends_with("name it job_submit_NAME.so"), "{text}");
        assert!(name(Host::Flux, "fairshare").is_err());
        assert!(name(Host::SlurmPrep, "prep_.so").is_err());
        for host in [Host::Flux, Host::SlurmJobSubmit, Host::SlurmPrep] {
            let library = Library::for_host(host);
            assert_eq!(library.name_in(Path::new(&library.file_name("site"))).unwrap(), "site");
            // Otherwise cargo would take it for the plugin of the same name.
            assert_ne!(library.crate_name("site"), "site");
        }
    }
}
