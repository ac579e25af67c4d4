//! The Slurm that a file is built for: found, and compared with what the plugins need, before cargo is started.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

use jobtap_slurm::installed::{
    FORCE_LAYOUT, INCLUDE_DIR, Installed, InstalledError, NO_SOURCE, SOURCE_DIR, Search, Version,
};

use jobtap_daemon::composition::Host;

use crate::lineup::Member;
use crate::needs::{Need, What};

/// Why a file can't be built for the Slurm of this machine.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// There are no headers that can be used.
    #[error(transparent)]
    Headers(#[from] InstalledError),
    /// The daemons are of another version than the headers.
    #[error(
        "the headers below {include} are of Slurm {headers}, and the Slurm of this machine is {daemon}, which would \
         refuse the file: install the headers of {daemon}; or name those of another machine's Slurm by {INCLUDE_DIR}"
    )]
    OtherDaemon {
        /// The directory of the headers.
        include: String,
        /// Their version.
        headers: Version,
        /// That of the daemons.
        daemon: Version,
    },
    /// A plugin needs slurmctld's own structures.
    #[error(
        "{who} needs structures of slurmctld's that are in no package of headers. Unpack the source of exactly Slurm \
         {version}, and set {SOURCE_DIR} to its directory; it is read, and not compiled:\n\
         \x20 Debian, Ubuntu (with deb-src configured): apt-get source --download-only slurm-wlm; tar xf \
         slurm-wlm_{version}.orig.tar.*\n\
         \x20 Red Hat with OpenHPC: dnf download --source slurm-ohpc; rpm2cpio slurm-ohpc-{version}-*.src.rpm | \
         cpio -id; tar xf slurm-{version}.tar.bz2\n\
         \x20 any: curl -O https://download.schedmd.com/slurm/slurm-{version}.tar.bz2; tar xf \
         slurm-{version}.tar.bz2"
    )]
    NoSource {
        /// The plugin, and where it needs them.
        who: String,
        /// The version of the headers.
        version: Version,
    },
}

/// Finds the Slurm that a file with these plugins is built for; `None` for another host.
///
/// # Errors
/// When headers or the source are missing, or aren't those of the daemons of this machine.
pub(crate) fn find(
    host: Option<Host>,
    is_forced: bool,
    members: &[Member],
) -> Result<Option<Installed>, SlurmError> {
    let host = match host {
        Some(host @ (Host::SlurmJobSubmit | Host::SlurmPrep)) => host,
        Some(Host::Flux) | None => return Ok(None),
    };
    let mut search = Search::from_environment();
    search.is_forced |= is_forced;
    let installed = Installed::find(&search)?;
    let (headers, include) = (installed.version, installed.include.display().to_string());
    if search.include.is_none()
        && let Some(daemon) = daemon().filter(|daemon| *daemon != headers)
    {
        return Err(SlurmError::OtherDaemon { include, headers, daemon });
    }
    match needs_source(host, members).filter(|_| installed.source.is_none()) {
        Some(who) => Err(SlurmError::NoSource { who, version: headers }),
        None => Ok(Some(installed)),
    }
}

/// The environment in which the adapter's build script finds the same headers.
pub(crate) fn environment(slurm: &Installed) -> Vec<(&'static str, OsString)> {
    let source = slurm.source.as_ref().map_or_else(|| NO_SOURCE.into(), |source| source.into());
    let force = if slurm.is_forced { "1" } else { "" };
    vec![
        (INCLUDE_DIR, slurm.include.clone().into()),
        (SOURCE_DIR, source),
        (FORCE_LAYOUT, force.into()),
    ]
}

/// The version of the Slurm that is installed; `None` without one.
fn daemon() -> Option<Version> {
    // The commands for users need a configuration even for this, the daemons don't.
    ["scontrol", "slurmctld", "/usr/sbin/slurmctld", "slurmd", "/usr/sbin/slurmd"].iter().find_map(
        |program| {
            let asked = Command::new(program).arg("-V").stderr(Stdio::null()).output().ok()?;
            Version::of_command(&String::from_utf8_lossy(&asked.stdout))
        },
    )
}

/// The first plugin that needs more than Slurm's public headers, and where; `None` if they are enough.
fn needs_source(host: Host, members: &[Member]) -> Option<String> {
    let of_plugins = members.iter().flat_map(|member| {
        member.plugins.iter().map(|plugin| (format!("plugin {:?}", plugin.name), &plugin.needs))
    });
    let shared = members
        .iter()
        .map(|member| (format!("a function of crate {:?}", member.name), &member.shared));
    of_plugins.chain(shared).find_map(|(mut who, needs)| {
        if host == Host::SlurmPrep {
            return Some(who);
        }
        let Need { what, line, file, function } = needs.iter().find(|need| is_of_source(need))?;
        let what = match what {
            What::Handler { topic, .. } => topic,
            _ => "the partitions",
        };
        let _ = write!(who, " ({}:{line}: {function}, {what})", file.display());
        Some(who)
    })
}

fn is_of_source(need: &Need) -> bool {
    match &need.what {
        // A change is validated with slurmctld's record of the job.
        What::Handler { topic, .. } => topic == "slurm.job_modify" || topic == "job.validate",
        What::Partitions => true,
        What::Service(_) | What::Call(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Declared;

    fn member(what: What) -> Member {
        let file = "/site/src/lib.rs".into();
        let needs = vec![Need { what, file, line: 7, function: "decide".into() }];
        let plugin = Declared { name: "limits".into(), needs, ..Declared::default() };
        let (plugins, schedulers, shared) = (vec![plugin], Vec::new(), Vec::new());
        Member { name: "limits".into(), plugins, schedulers, shared }
    }

    #[test]
    fn only_jobs_and_partitions_need_the_source() {
        let handler = |topic: &str| {
            let topic = topic.to_owned();
            [member(What::Handler { topic, is_async: false })]
        };
        let submit = |members: &[Member]| needs_source(Host::SlurmJobSubmit, members);
        assert_eq!(submit(&handler("slurm.job_submit")), None);
        for topic in ["slurm.job_modify", "job.validate"] {
            assert_eq!(
                submit(&handler(topic)).unwrap(),
                format!("plugin \"limits\" (/site/src/lib.rs:7: decide, {topic})")
            );
        }
        assert_eq!(
            submit(&[member(What::Partitions)]).unwrap(),
            "plugin \"limits\" (/site/src/lib.rs:7: decide, the partitions)"
        );
        let prep = needs_source(Host::SlurmPrep, &handler("slurm.prolog"));
        assert_eq!(prep.as_deref(), Some("plugin \"limits\""));
    }

    #[test]
    fn what_is_missing_is_named_with_its_version() {
        let who = "plugin \"limits\"".to_owned();
        let error = SlurmError::NoSource { who, version: Version::from_number(0x18_0b_05) };
        let text = error.to_string();
        assert!(text.contains("tar xf slurm-wlm_24.11.5.orig.tar.*"), "{text}");
        assert!(text.contains("/slurm/slurm-24.11.5.tar.bz2;"), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
