//! Flux's namespaces of keys: `job-ID` contains a job's own keys, `primary` all others. Here all keys are in one tree,
//! and a namespace is a directory of it.

use jobtap_core::job::{Encoding, JobId};

use crate::cli::common::message::CliError;

/// The variable with the namespace of a task's commands.
const VARIABLE: &str = "FLUX_KVS_NAMESPACE";

/// The namespace of the whole tree.
const PRIMARY: &str = "primary";

/// The directories at the root of the tree. In a task's namespace these names still mean the directories at the root.
const ROOTS: [&str; 4] = ["admin", "checkpoint", "job", "resource"];

/// The option for a namespace.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct NamespaceArgs {
    /// Namespace of the keys: job-ID or primary [default: in a job's tasks that of the job]
    #[arg(short = 'N', long, value_name = "NS")]
    namespace: Option<String>,
}

/// Where keys are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Namespace {
    /// At the root of the tree.
    Primary,
    /// Among a job's own keys.
    Job {
        /// The directory, with a dot at its end.
        prefix: String,
        /// Whether the names of the directories at the root still mean these.
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

    /// The name in this namespace of a key of the whole tree.
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
