//! Files for other hosts: one shared library with chosen plugins, which a Flux or a Slurm loads.
//!
//! The plugin crates are the same as for a manager. Only the crate around them differs: it is a library that
//! links the host's adapter and exports the functions that the host calls. What the host doesn't offer is
//! refused by the source of the plugins, before minutes of compiling.

use std::fmt::Write as _;
use std::path::Path;

use jobtap_core::host::{HostKind, SERVICE_OFFERS, topic_named};
use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::generate::COMPOSITION;
use super::lineup::Member;
use super::scan::{Declared, Need};

/// The program that loads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// A Flux instance's job manager: `flux jobtap load FILE`
    Flux,
    /// Slurm's slurmctld, by JobSubmitPlugins
    SlurmJobSubmit,
    /// Slurm's slurmctld and slurmd, by PrEpPlugins
    SlurmPrep,
}

impl Host {
    /// The host as the SDK knows it.
    pub fn kind(self) -> HostKind {
        match self {
            Host::Flux => HostKind::Flux,
            Host::SlurmJobSubmit => HostKind::SlurmSubmit,
            Host::SlurmPrep => HostKind::SlurmPrep,
        }
    }

    /// The folder and the crate of its adapter.
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

    /// What the name of a file begins with. Slurm looks for its plugins by such names.
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

    /// The name of the generated crate. It is none that a plugin's crate is likely to have.
    pub(super) fn crate_name(self, name: &str) -> String {
        format!("{name}-in-{}", self.kind().name())
    }

    /// The source of the generated crate.
    ///
    /// `uses` are the crates with plugins, as Rust names them, and `order` the plugins in the order in which they
    /// are called.
    pub(super) fn library(self, name: &str, uses: &[String], order: &[String]) -> String {
        let mut text = format!("//! Plugins for {}, made by `jobtap build`.\n\n", self.kind());
        for name in uses {
            let _ = writeln!(text, "use {name} as _;");
        }
        let _ = writeln!(
            text,
            "\n/// What the file was made of: `jobtap plugin available FILE` finds it here.\n\
             #[used]\nstatic COMPOSITION: &str = include_str!(\"../{COMPOSITION}\");\n"
        );
        let (name, order) = (format!("{name:?}"), format!("{order:?}"));
        let _ = match self {
            Host::Flux => writeln!(text, "jobtap_flux::export!({order});"),
            Host::SlurmJobSubmit => {
                writeln!(text, "jobtap_slurm::export_job_submit!({name}, {order});")
            }
            Host::SlurmPrep => writeln!(text, "jobtap_slurm::export_prep!({name}, {order});"),
        };
        text
    }

    /// Refuses plugins that need what the host doesn't offer.
    ///
    /// # Errors
    /// Names each plugin, each topic and call, and what to do.
    pub(super) fn check(self, members: &[Member]) -> Result<(), BuildError> {
        let plugins = || members.iter().flat_map(|member| &member.plugins);
        if plugins().next().is_none() {
            return Err(BuildError::refused(format!(
                "{}: there is no plugin to build: name a crate with --with NAME=PATH or in the manifest",
                self.kind()
            )));
        }
        let refusals: Vec<String> = plugins().filter_map(|found| self.refusal(found)).collect();
        if refusals.is_empty() {
            return Ok(());
        }
        Err(BuildError::refused(refusals.join("\n")))
    }

    fn refusal(self, plugin: &Declared) -> Option<String> {
        let mut gaps: Vec<String> = Vec::new();
        // First what the plugin is called for, then what it calls.
        let is_call = |need: &&Need| matches!(need, Need::Call(_));
        let (calls, topics): (Vec<&Need>, Vec<&Need>) = plugin.needs.iter().partition(is_call);
        for need in topics.into_iter().chain(calls) {
            let gap = self.gap(need);
            gaps.extend(gap.filter(|gap| !gaps.contains(gap)));
        }
        if gaps.is_empty() {
            return None;
        }
        let (name, host) = (&plugin.name, self.kind());
        Some(format!("plugin {name:?} can't run in {host}:\n{}", gaps.join("\n")))
    }

    /// Why the host doesn't serve something, as a line of a message.
    fn gap(self, need: &Need) -> Option<String> {
        let kind = self.kind();
        match need {
            Need::Handler { topic, is_async } => {
                let id = topic_named(topic)?;
                let served = kind.topic(id).is_served();
                let offer = if *is_async { kind.async_topic(id) } else { kind.topic(id) };
                let what = if served { "an async handler of " } else { "" };
                offer.gap().map(|why| format!("  {what}{topic}: {why}"))
            }
            Need::Service => SERVICE_OFFERS.of(kind).gap().map(|why| format!("  a service: {why}")),
            Need::Call(name) => {
                kind.call_named(name).gap().map(|why| format!("  cx.{name}(): {why}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(needs: Vec<Need>) -> Member {
        let plugin = Declared { name: "fairshare".into(), needs, ..Declared::default() };
        Member { name: "fairshare".into(), plugins: vec![plugin], schedulers: Vec::new() }
    }

    fn handler(topic: &str, is_async: bool) -> Need {
        Need::Handler { topic: topic.into(), is_async }
    }

    #[test]
    fn a_plugin_that_needs_more_is_refused_topic_by_topic() {
        let needs = || {
            vec![
                handler("job.validate", false),
                handler("job.dependency.quota", false),
                handler("job.event.start", true),
                Need::Service,
                Need::Call("retain_resources".into()),
            ]
        };
        let text = Host::SlurmJobSubmit.check(&[member(needs())]).unwrap_err().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[0], "plugin \"fairshare\" can't run in Slurm's job_submit:");
        assert!(lines[1].starts_with("  job.dependency.quota: Slurm tells"), "{text}");
        assert!(lines[2].starts_with("  job.event.start: "), "{text}");
        assert!(lines[3].starts_with("  a service: Slurm passes no requests"), "{text}");
        assert!(lines[4].starts_with("  cx.retain_resources(): "), "{text}");
        let text = Host::Flux.check(&[member(needs())]).unwrap_err().to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn only_an_async_handler_of_validate_is_too_much_for_flux() {
        assert!(Host::Flux.check(&[member(vec![handler("job.validate", false)])]).is_ok());
        let text = Host::Flux.check(&[member(vec![handler("job.validate", true)])]);
        let text = text.unwrap_err().to_string();
        assert!(
            text.contains("\n  an async handler of job.validate: Flux's job manager"),
            "{text}"
        );
    }

    #[test]
    fn slurm_finds_files_by_their_names() {
        let name = |host: Host, file: &str| host.name_in(Path::new(file)).map(str::to_owned);
        assert_eq!(name(Host::Flux, "x/fairshare.so").unwrap(), "fairshare");
        assert_eq!(name(Host::SlurmJobSubmit, "job_submit_site.so").unwrap(), "site");
        assert_eq!(name(Host::SlurmPrep, "prep_site.so").unwrap(), "site");
        let text = name(Host::SlurmJobSubmit, "site.so").unwrap_err().to_string();
        assert!(text.ends_with("name it job_submit_NAME.so"), "{text}");
        assert!(name(Host::Flux, "fairshare").is_err());
    }
}
