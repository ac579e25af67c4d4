//! The namespaces of keys that Flux has: `job-ID` are the keys that a job has of its own, `primary` all others. Here these
//! are one tree, so that a namespace is a directory of it.

use jobtap_core::job::{Encoding, JobId};

use crate::cli::common::message::CliError;

/// The variable with the namespace of a task's commands.
const VARIABLE: &str = "FLUX_KVS_NAMESPACE";

/// The namespace of the whole tree.
const PRIMARY: &str = "primary";

/// The directories that the tree has beside each other. In a task they are found by their own names, too.
const ROOTS: [&str; 4] = ["admin", "checkpoint", "job", "resource"];

/// The option for a namespace.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct NamespaceArgs {
    /// Namespace of the keys: job-ID or primary [default: in a job's tasks that of the job]
    #[arg(short = 'N', long, value_name = "NS")]
    namespace: Option<String>,
}

/// From where keys are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Namespace {
    /// From the root of the tree.
    Primary,
    /// From a job's own keys.
    Job {
        /// The directory, with a dot at its end.
        prefix: String,
        /// Whether the directories of the root have their own names nevertheless.
        roots: bool,
    },
}

impl NamespaceArgs {
    /// The namespace that the option or the environment names.
    ///
    /// # Errors
    /// There is no such namespace.
    pub(super) fn namespace(&self) -> Result<Namespace, CliError> {
        let variable = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        match (&self.namespace, variable) {
            (Some(name), _) => Namespace::named(name, false),
            (None, Some(name)) => Namespace::named(&name, true),
            (None, None) => Ok(Namespace::Primary),
        }
    }
}

impl Namespace {
    fn named(name: &str, roots: bool) -> Result<Self, CliError> {
        if name == PRIMARY {
            return Ok(Self::Primary);
        }
        let id = name.strip_prefix("job-").and_then(|number| number.parse::<u64>().ok());
        let id = id.ok_or_else(|| {
            CliError::failure(format!(
                "{name}: no namespace: use job-ID, as `job namespace` prints it"
            ))
        })?;
        let prefix = format!("{}.guest.", JobId::new(id).encode(Encoding::Kvs));
        Ok(Self::Job { prefix, roots })
    }

    /// The key in the whole tree.
    pub(super) fn whole(&self, key: &str) -> String {
        match self {
            Self::Job { roots: true, .. } if is_in_root(key) => key.to_owned(),
            Self::Job { prefix, .. } if key == "." => prefix.trim_end_matches('.').to_owned(),
            Self::Job { prefix, .. } => format!("{prefix}{key}"),
            Self::Primary => key.to_owned(),
        }
    }

    /// The key of the whole tree, as it is named here.
    pub(super) fn own(&self, key: String) -> String {
        match self {
            Self::Job { prefix, .. } => key.strip_prefix(prefix).map(str::to_owned).unwrap_or(key),
            Self::Primary => key,
        }
    }
}

fn is_in_root(key: &str) -> bool {
    key.split('.').next().is_some_and(|first| ROOTS.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_job_are_a_directory_of_the_tree() {
        let job = Namespace::named("job-68484595712", false).unwrap();
        let whole = job.whole("exec.eventlog");
        assert!(
            whole.starts_with("job.0000.") && whole.ends_with(".guest.exec.eventlog"),
            "{whole}"
        );
        assert_eq!(job.own(whole.clone()), "exec.eventlog");
        assert_eq!(job.whole("."), whole.trim_end_matches(".exec.eventlog"));
        assert!(job.whole("resource.R").contains(".guest.resource.R"));
        let of_task = Namespace::named("job-68484595712", true).unwrap();
        assert_eq!(of_task.whole("resource.R"), "resource.R");
        assert_eq!(of_task.whole("exec.eventlog"), whole);
        let primary = Namespace::named("primary", true).unwrap();
        assert_eq!((primary.whole("."), primary.whole("a.b")), (".".into(), "a.b".into()));
        assert!(
            Namespace::named("nosuch", false).is_err() && Namespace::named("job-x", false).is_err()
        );
    }
}
