//! `prep-script`: Slurm's prolog and epilog scripts, as they are.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "prep-script" }]
//!
//! [plugins.prep-script]
//! prolog = "/etc/slurm/prolog.d/*"            # on each node, before the tasks; a path, a pattern, or a list
//! epilog = ["/etc/slurm/epilog.d/*", "/etc/site/scrub"]
//! prolog-slurmctld = "/etc/slurm/prepare"     # once for each job, before the prologs of its nodes
//! epilog-slurmctld = "/etc/slurm/account"
//! timeout = "10m"                             # PrologEpilogTimeout; default: none
//! prolog-timeout = "2m"                       # for prologs only
//! epilog-timeout = "30m"                      # for epilogs only
//! prolog-flags = ["Serial"]                   # PrologFlags; Alloc and DeferBatch are always so
//! cluster-name = "cluster"                    # SLURM_CLUSTER_NAME
//! slurm-conf = "/etc/slurm/slurm.conf"        # SLURM_CONF
//! ```
//!
//! Scripts get their job in `SLURM_*` variables, and what they need to call Slurm's commands: the manager's address, and
//! a `PATH` that begins with those commands. They get no arguments, and a closed standard input. The files that a
//! pattern finds run in reverse alphabetical order, one after the other, and the first that fails ends the list. A
//! pattern that matches no file is not an error; a path without a pattern must exist. A script that exceeds its timeout is killed with all that it has started. The output of a
//! script is discarded, except for the last line of its standard error, which is logged if the script fails.
//!
//! The manager handles failures as for any plugin with the topics `slurm.prolog` and so on. If a prolog
//! fails, its node is drained and the job is submitted again, held; if a controller prolog fails, the job is
//! submitted again; if an epilog fails, its node is drained; if a controller epilog fails, that is logged. A
//! script that is running when the manager restarts counts as failed.
//!
//! All scripts run on the manager's host, as its user. Those of nodes run once for each node of the job, with the
//! node's name in `SLURMD_NODENAME`.

mod environment;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::lock::{Mutex, OwnedMutexGuard};
use jobtap_core::eventlog::Event;
use jobtap_core::plugin::{BlockingError, ExitError, Gone, ProcessError, TimedOut};
use jobtap_core::prelude::*;

use self::environment::{Account, Context, Names, variables};

/// The plugin `prep-script`.
#[derive(Debug)]
pub struct PrepScript {
    settings: Arc<Settings>,
    /// The users whose names are known.
    names: BTreeMap<Uid, Names>,
    /// A lock for each host, held while scripts run for its node, if they run one after the other.
    serial: BTreeMap<String, Arc<Mutex<()>>>,
}

/// A flag of Slurm's `PrologFlags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum PrologFlag {
    /// Prologs run when the job gets its resources, as they always do here.
    Alloc,
    /// The job starts when the prologs of all nodes have ended, as it always does here.
    DeferBatch,
    /// The prologs and epilogs of a node run one after the other.
    Serial,
    /// Not served.
    Contain,
    /// Not served.
    ForceRequeueOnFail,
    /// Not served.
    NoHold,
    /// Not served.
    RunInJob,
    /// Not served.
    X11,
}

impl PrologFlag {
    /// The reason why the flag is not served; `None` if it is.
    const fn missing(self) -> Option<&'static str> {
        Some(match self {
            Self::Alloc | Self::DeferBatch | Self::Serial => return None,
            Self::Contain => "there is no step for processes from outside the job",
            Self::ForceRequeueOnFail => {
                "a job that is not to be requeued ends when its prolog fails"
            }
            Self::NoHold => "the tasks of every job wait for its prologs",
            Self::RunInJob => "scripts run on the manager's host",
            Self::X11 => "X11 is not forwarded",
        })
    }
}

/// A path or pattern, or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Scripts {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    /// Runs on each node before the tasks.
    prolog: Option<Scripts>,
    /// Runs on each node after the tasks.
    epilog: Option<Scripts>,
    /// Runs once before the prologs of the nodes.
    prolog_slurmctld: Option<Scripts>,
    /// Runs once after the tasks.
    epilog_slurmctld: Option<Scripts>,
    /// How long a script may take.
    timeout: Option<Fsd>,
    /// How long a prolog may take, in place of `timeout`.
    prolog_timeout: Option<Fsd>,
    /// How long an epilog may take, in place of `timeout`.
    epilog_timeout: Option<Fsd>,
    /// Slurm's `PrologFlags`: `Alloc`, `DeferBatch`, `Serial`.
    prolog_flags: Vec<PrologFlag>,
    /// `SLURM_CLUSTER_NAME`.
    cluster_name: Option<String>,
    /// `SLURM_CONF`.
    slurm_conf: Option<String>,
}

impl Settings {
    /// The paths and patterns of the scripts for a context.
    fn scripts(&self, context: Context) -> Vec<String> {
        let scripts = match context {
            Context::Prolog => &self.prolog,
            Context::Epilog => &self.epilog,
            Context::PrologSlurmctld => &self.prolog_slurmctld,
            Context::EpilogSlurmctld => &self.epilog_slurmctld,
        };
        match scripts.clone() {
            None => Vec::new(),
            Some(Scripts::One(one)) => vec![one],
            Some(Scripts::Several(several)) => several,
        }
    }

    /// Returns the time limit of a script in seconds. `None` means no limit, which a configured 0 means, too.
    fn limit(&self, context: Context) -> Option<f64> {
        let own = match context.is_prolog() {
            true => self.prolog_timeout,
            false => self.epilog_timeout,
        };
        let limit = own.or(self.timeout).map(Fsd::as_secs);
        limit.filter(|seconds| *seconds > 0.0 && seconds.is_finite())
    }
}

#[jobtap_plugin(name = "prep-script", load = "by-name")]
impl PrepScript {
    #[init]
    fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
        let settings = settings.into_inner();
        for context in Context::ALL {
            for script in settings.scripts(context) {
                if !script.starts_with('/') {
                    let text = format!("{}: {script}: must be an absolute path", context.key());
                    return Err(ConfError::new(text));
                }
                glob::Pattern::new(&script).map_err(|error| {
                    ConfError::new(format!("{}: {script}: {error}", context.key()))
                })?;
            }
        }
        for flag in &settings.prolog_flags {
            if let Some(why) = flag.missing() {
                return Err(ConfError::new(format!("prolog-flags: {flag:?} is not served: {why}")));
            }
        }
        let settings = Arc::new(settings);
        Ok(Self { settings, names: BTreeMap::new(), serial: BTreeMap::new() })
    }

    #[on("slurm.prolog_slurmctld")]
    async fn prolog_slurmctld(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let run = Run { context: Context::PrologSlurmctld, job, node: None, remote };
        Ok(run.all().await?)
    }

    #[on("slurm.prolog")]
    async fn prolog(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let run = Run { context: Context::Prolog, job, node: Some(node), remote };
        Ok(run.all().await?)
    }

    #[on("slurm.epilog")]
    async fn epilog(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        let run = Run { context: Context::Epilog, job, node: Some(node), remote };
        Ok(run.all().await?)
    }

    #[on("slurm.epilog_slurmctld")]
    async fn epilog_slurmctld(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        let run = Run { context: Context::EpilogSlurmctld, job, node: None, remote };
        Ok(run.all().await?)
    }
}

/// Why the scripts of one context of a job have failed.
#[derive(Debug, thiserror::Error)]
enum RunError {
    /// The plugin or the manager is gone.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The files could not be looked for.
    #[error(transparent)]
    Search(#[from] BlockingError),
    #[error("{pattern}: {reason}")]
    Pattern { pattern: String, reason: glob::PatternError },
    /// A directory could not be read.
    #[error(transparent)]
    Directory(#[from] glob::GlobError),
    #[error("{script}: {reason}")]
    Script { script: String, reason: ScriptError },
}

/// Why a script has failed.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    #[error("killed: {0}")]
    Late(#[from] TimedOut),
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It ended so, with a line on its standard error.
    #[error("{how}: {line}")]
    Said { how: ExitError, line: String },
    /// It ended so, without a word.
    #[error("{0}")]
    Ended(ExitError),
}

/// Runs a script with the variables in the arguments. `$0` is this program.
///
/// Beside the manager's socket there are Slurm's commands, made here unless they call this program already. Without
/// them the script runs nevertheless. `env -i`, since the script must not get the manager's own variables.
const LAUNCH: &str = r#"d=${JOBTAP_URI#local://}
d=${d%/*}/slurm
l=
{ read -r l; read -r l; read -r l; } 2>/dev/null <"$d/scontrol"
case $l in
"exec '$0' "*) ;;
*) "$0" slurm install "$d" >/dev/null 2>&1 ;;
esac
exec /usr/bin/env -i "JOBTAP_URI=$JOBTAP_URI" \
    "PATH=$d:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@""#;

/// The scripts of one context of a job.
struct Run {
    context: Context,
    job: JobInfo,
    node: Option<Node>,
    remote: Remote<PrepScript>,
}

impl Run {
    /// Runs the scripts until one fails. The error says which one failed, and how.
    async fn all(self) -> Result<(), RunError> {
        let settings = self.remote.call(|plugin, _| Arc::clone(&plugin.settings)).await?;
        let patterns = settings.scripts(self.context);
        if patterns.is_empty() {
            return Ok(());
        }
        let scripts = self.remote.blocking(move || find(&patterns)).await??;
        if scripts.is_empty() {
            return Ok(());
        }
        let names = self.names().await?;
        let account = Account {
            cluster: settings.cluster_name.as_deref(),
            conf: settings.slurm_conf.as_deref(),
            names: &names,
        };
        let status = self.exit_status().await?;
        let variables = variables(self.context, &self.job, self.node.as_ref(), &account, status);
        let _turn = self.turn(&settings).await?;
        for script in scripts {
            let ran = self.one(&script, &variables, settings.limit(self.context)).await;
            ran.map_err(|reason| RunError::Script { script, reason })?;
        }
        Ok(())
    }

    /// If scripts run one after the other, waits until no others run on the node, and keeps others from
    /// running until the value is dropped.
    async fn turn(&self, settings: &Settings) -> Result<Option<OwnedMutexGuard<()>>, Gone> {
        let Some(node) = &self.node else { return Ok(None) };
        if !settings.prolog_flags.contains(&PrologFlag::Serial) {
            return Ok(None);
        }
        let host = node.host.clone();
        let of_node = self.remote.call(|plugin, _| {
            let of_node = plugin.serial.entry(host).or_default();
            Arc::clone(of_node)
        });
        Ok(Some(of_node.await?.lock_owned().await))
    }

    async fn one(
        &self,
        script: &str,
        variables: &BTreeMap<String, String>,
        limit: Option<f64>,
    ) -> Result<(), ScriptError> {
        let own = std::env::current_exe().unwrap_or_default();
        let own = own.to_string_lossy();
        // Linux adds this if the program was replaced, as by an upgrade: the new one serves as well.
        let own = own.strip_suffix(" (deleted)").unwrap_or(&own);
        let process = Process::new("/bin/sh").args(["-c", LAUNCH]).arg(own);
        let pairs = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let process = process.args(pairs).arg(script);
        let mut child = self.remote.start_process(process);
        let end = match limit {
            None => child.wait().await?,
            // If it is late, dropping the child kills the script with all that it has started.
            Some(seconds) => self.remote.timeout(seconds, child.wait()).await??,
        };
        end.success().map_err(|how| match last_line(&end.stderr) {
            Some(line) => ScriptError::Said { how, line },
            None => ScriptError::Ended(how),
        })
    }

    /// The names of the job's user and group.
    async fn names(&self) -> Result<Names, Gone> {
        let user = self.job.userid;
        let known = self.remote.call(move |plugin, _| plugin.names.get(&user).cloned()).await;
        if let Some(names) = known? {
            return Ok(names);
        }
        let passwd = self.look_up("passwd", &user.to_string()).await;
        let mut names = Names::from_passwd(user, passwd.as_deref());
        let group = self.look_up("group", &names.gid.to_string()).await;
        names.set_group(group.as_deref());
        let noted = names.clone();
        self.remote.run(move |plugin, _| drop(plugin.names.insert(user, noted)));
        Ok(names)
    }

    /// Looks up the line for a key in a database of the system's name service.
    async fn look_up(&self, database: &str, key: &str) -> Option<String> {
        let end =
            self.remote.run_process(Process::new("getent").args([database, key])).await.ok()?;
        end.success().ok()?;
        Some(String::from_utf8_lossy(&end.stdout).trim().to_owned())
    }

    /// The wait status of the job; 0 if it has none yet.
    async fn exit_status(&self) -> Result<i64, Gone> {
        let id = self.job.id;
        let status = self.remote.call(move |_, cx| {
            let job = cx.job(id).ok()?;
            match job.end_event()?.event() {
                Ok(Event::Finish { status }) => Some(i64::from(status)),
                _ => None,
            }
        });
        Ok(status.await?.unwrap_or(0))
    }
}

/// The files for some paths and patterns, in the order in which they run.
fn find(patterns: &[String]) -> Result<Vec<String>, RunError> {
    let mut scripts = Vec::new();
    for pattern in patterns {
        let is_pattern = pattern.contains(['*', '?', '[']);
        if !is_pattern {
            scripts.push(pattern.clone());
            continue;
        }
        let wrong = |reason| RunError::Pattern { pattern: pattern.clone(), reason };
        let found = glob::glob(pattern).map_err(wrong)?;
        let mut files: Vec<String> = Vec::new();
        for file in found {
            let file = file?;
            if file.is_file() {
                files.push(file.to_string_lossy().into_owned());
            }
        }
        files.sort_unstable_by(|a, b| b.cmp(a));
        scripts.append(&mut files);
    }
    Ok(scripts)
}

/// The last line that was printed, which usually says what is wrong.
fn last_line(output: &[u8]) -> Option<String> {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LONGEST).collect())
}
