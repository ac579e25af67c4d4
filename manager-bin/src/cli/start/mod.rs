//! `start`: runs a manager, and a command as its initial program. The manager ends with the command.

mod broker;
mod enclosing;
mod engine;
#[cfg(feature = "fuzz")]
pub(in crate::cli) mod foreign;
mod launcher;
mod node;
mod service;
mod signals;

use std::ffi::OsString;
use std::fs::File;
use std::future::pending;
use std::io::IsTerminal;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::allocation::Tables;
use jobtap_core::engine::Level;
use jobtap_core::job::{Fsd, JobId};
use jobtap_core::resource::ResourceSet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::broker::{TestOptions, broker_attributes};
use self::enclosing::{Enclosing, Expiration};
use self::engine::Engine;
use self::launcher::{Place, Step};
pub(super) use self::node::serve_allocation;
use self::service::ServiceManager;
use self::signals::Signals;
use crate::cli::common::ids::show_id;
use crate::cli::common::message::{CliError, Prog, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::common::when::now;
use crate::cli::instance::version;
use crate::cli::kvs::restore_into;
use crate::cli::sbatch::srun::is_step;
use crate::daemon::attributes::{
    Attributes, CONFIG_PATH, JOBID_PATH, STDERR_LEVEL, check_of_brokers, is_of_user, stderr_level,
};
use crate::daemon::config::Source;
use crate::daemon::resources::{TestSize, takes_given};
use crate::daemon::statedir::{self, StateDir};
use crate::daemon::{Daemon, Options};
use crate::exec::nodes::{AllocationAddress, Nodes, saved};
use crate::files::{self, TemporaryDir};
use crate::limited;
use crate::open_files::OpenFiles;
use crate::rpc::uri;
use crate::stderr;

const COMMAND: &str = "start";

/// The attribute with which the manager runs no command, as in Flux: it ends at a signal or at a client's request.
const NO_COMMAND: &str = "broker.rc2_none";

/// The attribute with the time that a node may be away before its jobs are lost, by the name that Flux has for it.
const LONGEST_ABSENCE: &str = "tbon.torpid_max";

/// The configuration that the package's unit for systemd uses.
const SYSTEM_CONFIG: &str = "/etc/jobtap";

/// The environment variable of Flux that keeps jobs running after the command has exited.
const DISABLE_JOB_CLEANUP: &str = "FLUX_DISABLE_JOB_CLEANUP";

/// The variable that tells the initial program the id of the job that its manager runs as.
const ENCLOSING: &str = "FLUX_ENCLOSING_ID";

/// How long after the end of the command a signal may still be the one that ended the command: a signal of a terminal,
/// or to the job that this manager runs as, goes to both, and the manager may receive it last.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Options and arguments of `start`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct StartArgs {
    /// Simulate N hosts like this one
    #[arg(short = 's', long, value_name = "N")]
    test_size: Option<i64>,
    /// Names of the simulated hosts
    #[arg(long, value_name = "HOSTLIST")]
    test_hosts: Option<String>,
    /// Configuration: a TOML file, or a directory of TOML files
    #[arg(short = 'c', long, value_name = "PATH")]
    config_path: Vec<PathBuf>,
    /// Additional configuration: KEY=VAL, a TOML text or a file
    #[arg(long, value_name = "VALUE")]
    conf: Vec<String>,
    /// Read the configuration of the host's manager, /etc/jobtap, before any --config-path
    #[arg(long)]
    sysconfig: bool,
    /// Set an attribute: statedir=DIR, local-uri=URI, log-stderr-level=N, content.dump=FILE, content.restore=FILE
    #[arg(short = 'S', long, value_name = "ATTR=VAL")]
    setattr: Vec<String>,
    /// Comma-separated options of Flux's brokers, of which -SATTR=VAL is supported
    #[arg(short = 'o', long, value_name = "OPTS", allow_hyphen_values = true)]
    broker_opts: Vec<String>,
    /// Inspect the state of another manager: a state directory or an archive. All queues are stopped, so
    /// that no job starts
    #[arg(short = 'r', long, value_name = "TARGET", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    recovery: Option<String>,
    /// In a script of an allocation: start an instance of all of its nodes
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["test_size", "test_hosts"])]
    nodes: Option<Engine>,
    #[command(flatten)]
    test: TestOptions,
    /// State directory; without it, the state is temporary
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print more messages on stderr (repeatable)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Check the options and the configuration, and start nothing
    #[arg(short = 'X', long)]
    noexec: bool,
    /// Command to run [default: a shell]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The parsed options.
struct Plan {
    source: Source,
    config: Value,
    state_dir: Option<PathBuf>,
    log_level: Level,
    test_size: TestSize,
    command: Vec<OsString>,
    /// Whether the manager runs no command.
    no_command: bool,
    /// The archive to restore at the start.
    restore: Option<PathBuf>,
    /// The archive to write at the end.
    dump: Option<PathBuf>,
    /// Whether to stop all queues at the start.
    recovery: bool,
    /// The socket, if it isn't in the state directory.
    socket: Option<PathBuf>,
    /// The last file or directory of the configuration, as it was named.
    config_path: Option<PathBuf>,
    /// How long a node of an instance may be away before it is lost.
    grace: Duration,
    /// The user's own attributes.
    attributes: Vec<(String, String)>,
}

/// The first file descriptor after the three standard streams.
const FIRST_INHERITED: i32 = 3;

/// Runs the command. The exit code is that of COMMAND.
pub(crate) fn run(args: StartArgs) -> ExitCode {
    // The shepherd, the jobs, the plugins' processes and COMMAND must not inherit files that the process
    // which started the manager had open. This comes first, while no file of the manager itself is open.
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    stderr::take_panics();
    let checked = stderr::check_format().map_err(CliError::failure);
    // While no other descriptor can have its number.
    let pmi = launcher::take_descriptor();
    let launched = || match args.nodes {
        Some(engine) if !args.noexec => {
            engine::start_on_all(engine, pmi.is_some(), args.command.is_empty())
        }
        _ => Ok(()),
    };
    let launched = checked.and_then(|()| launched());
    let result = launched.and_then(|()| session::block_on(start(args, pmi)));
    if let Err(error) = &result
        && !error.text.is_empty()
    {
        stderr::line_of(Level::Error, &session::error_line(COMMAND, Family::Compiled, &error.text));
    }
    stderr::flush();
    ExitCode::from(result.unwrap_or_else(|error| error.code))
}

/// Why neither another step nor an inspection takes the state of a manager whose nodes may still run: jobs that run there
/// could begin again, or count as lost.
fn nodes_left(file: &Path) -> String {
    format!(
        "the nodes of the last manager on this state may still run its jobs: take them over with `jobtap start --state-dir` \
         on its first node, without the launcher. When its allocation is over, remove {}",
        file.display()
    )
}

/// Refuses to start in a directory that was removed or can't be entered.
fn check_current_directory() -> Result<(), CliError> {
    let Err(error) = std::env::current_dir() else { return Ok(()) };
    Err(CliError::failure(format!(
        "the current directory can't be used ({}): change to one that exists, as with `cd /`",
        system_text(&error)
    )))
}

/// Waits until the first task of the job exits. A job of several tasks is one instance, and a task that exits earlier
/// can end the job.
async fn outlast_first_task(job: &Enclosing) -> Result<u8, CliError> {
    let mut signals = Signals::new()?;
    tokio::select! {
        () = job.first_task_exits() => {}
        _ = signals.terminate.recv() => {}
        _ = signals.alarm.recv() => {}
        _ = signals.interrupt.recv() => {}
    }
    Ok(0)
}

async fn start(args: StartArgs, pmi: Option<File>) -> Result<u8, CliError> {
    check_current_directory()?;
    let checks_only = args.noexec;
    let plan = Plan::new(args)?;
    if checks_only {
        return Ok(0);
    }
    // An inspection orders nothing.
    let is_elastic = !plan.recovery && !tables(&plan.config)?.is_empty();
    if is_elastic && pmi.is_some() && std::env::var("PMI_SIZE").as_deref() != Ok("1") {
        return Err(CliError::failure(LAUNCHED));
    }
    let enclosing = Enclosing::from_environment();
    let given = match &enclosing {
        Some(job) if !is_elastic && takes_given(&plan.config, &plan.test_size) => {
            Some(job.resources().await?)
        }
        _ => None,
    };
    // A manager that takes over from a killed one finds its nodes by the state, and not in the job that it runs in.
    let left = plan.state_dir.as_deref().and_then(|state| saved::found(state, now()));
    let takes_over = pmi.is_none() && left.is_some();
    let has_hosts = match (&enclosing, &given) {
        // A test size makes nodes of this host.
        _ if plan.test_size.size.is_some() || takes_over || is_elastic => false,
        (Some(job), Some(given)) => job.has_hosts(given).await?,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let nodes = match has_hosts {
        true => {
            let (given, is_kept) = (given.as_ref(), plan.state_dir.is_some());
            launcher::place(Step { pmi, given, grace: plan.grace, is_kept })?
        }
        // A job on one host is one instance by itself.
        false => None,
    };
    let nodes = match nodes {
        Some(Place::Node(place)) => return node::run(&place).await,
        Some(Place::Manager(nodes)) => Some(nodes),
        None => None,
    };
    if let Some(job) = enclosing.as_ref().filter(|job| !job.is_first_task())
        && plan.test_size.size.is_none()
    {
        return outlast_first_task(job).await;
    }
    // With a state directory, but without a command and a terminal, this is a daemon of the system, as under systemd.
    let foreground = plan.command.is_empty()
        && (plan.no_command || plan.state_dir.is_some() && !std::io::stdin().is_terminal());
    // Without a state directory, no later manager takes the jobs over.
    let ends_jobs = !foreground || plan.state_dir.is_none();
    let statedir = match &plan.state_dir {
        Some(path) => StateDir::open(path),
        None => StateDir::temporary(),
    };
    let statedir = statedir.map_err(CliError::failure)?;
    let is_new_step = nodes.is_some();
    let (nodes, end_of_nodes) = match nodes {
        Some(nodes) => {
            if let Some(left) = saved::found(statedir.path(), now()) {
                return Err(CliError::failure(nodes_left(&left)));
            }
            let end = match &given {
                Some(given) => given.expiration().unwrap_or(0.0),
                None => launcher::end_of_allocation().await,
            };
            // The nodes find the next manager if this one is killed.
            saved::save(statedir.path(), &nodes, end)?;
            (Some(nodes), end)
        }
        None if is_elastic => (Some(elastic(&plan, &statedir)?), 0.0),
        None if plan.test_size.size.is_none() && !plan.recovery => {
            match saved::load(statedir.path(), now()) {
                // Its tables were removed, which the engine has allowed.
                Ok(Some((nodes, _))) if nodes.is_elastic() => {
                    saved::remove(statedir.path());
                    (None, 0.0)
                }
                Ok(Some((nodes, end))) => (Some(Arc::new(nodes)), end),
                Ok(None) => (None, 0.0),
                Err(error) => return Err(CliError::failure(error)),
            }
        }
        None => {
            if let Some(left) = saved::found(statedir.path(), now()) {
                return Err(CliError::failure(nodes_left(&left)));
            }
            (None, 0.0)
        }
    };
    if let Some(archive) = &plan.restore {
        restore(&statedir, archive)?;
    }
    let rundir = RunDir::new(&statedir)?;
    statedir::remove_leftovers();
    let Plan { source, config, log_level, test_size, command, dump, recovery, socket, .. } = plan;
    let named = plan.config_path.map(|path| (CONFIG_PATH, path.display().to_string()));
    let socket = socket.unwrap_or_else(|| own_socket(&statedir, &rundir));
    let is_of_nodes =
        |given: &ResourceSet| nodes.iter().all(|nodes| nodes.size as usize == given.nnodes());
    // That job can be another one than the first manager's.
    let given = given.filter(is_of_nodes);
    let known = given.as_ref().map(|job| job.expiration().unwrap_or(0.0));
    let mut attributes = vec![
        ("rundir", rundir.path.display().to_string()),
        ("version", version::short().to_owned()),
    ];
    attributes.extend(named);
    match &enclosing {
        Some(job) => attributes.extend(job.attributes().await),
        None => {
            attributes.extend([("instance-level", "0".to_owned()), (JOBID_PATH, "/".to_owned())])
        }
    }
    let attributes = Attributes::new(attributes).with_users(plan.attributes);
    let attributes = Arc::new(attributes.with_stderr_level(log_level));
    let options = Options {
        source,
        config,
        statedir,
        socket,
        log_level,
        test_size,
        given,
        end_of_nodes,
        nodes,
        dump,
        recovery,
        attributes,
    };
    let has_nodes = options.nodes.is_some();
    let state = options.statedir.path().to_path_buf();
    let nodes = options.nodes.clone();
    let mut daemon = match Daemon::start(options) {
        Ok(daemon) => {
            if let Some(nodes) = &nodes {
                // Now it is known what each of them has.
                saved::save(&state, nodes, end_of_nodes)?;
            }
            daemon
        }
        Err(error) => {
            if is_new_step {
                // Its nodes have ended, so that nobody could take them over.
                saved::remove(&state);
            }
            return Err(CliError::failure(error));
        }
    };
    let mut signals = Signals::new()?;
    if let Some(job) = &enclosing {
        job.announce(daemon.uri()).await;
    }
    let inside = enclosing.as_ref().map(Enclosing::id);
    let mut expiration = enclosing
        .zip(known)
        .map_or(Expiration::fixed(), |(job, known)| Expiration::watch_job(job, known));
    if let Some(nodes) = nodes {
        // The next manager must not take the allocation for over.
        let state = state.clone();
        expiration.note_each(move |end| {
            if let Err(error) = saved::save(&state, &nodes, end) {
                let text = format!("the new end of this manager's job can't be saved: {error}");
                stderr::line_of(Level::Warning, &text);
            }
        });
    }
    let mut child = match foreground {
        true => None,
        false => Some(spawn(&daemon, &rundir, &command, inside)?),
    };
    let mut service = ServiceManager::of_environment();
    let result = loop {
        let stop = match &mut child {
            None => serve(&daemon, &mut expiration, &mut signals, &mut service).await,
            Some(child) => supervise(&daemon, child, &mut expiration, &mut signals).await,
        };
        match stop {
            Ok(Stop::Restart) => daemon = restart(daemon, child.as_ref(), &expiration).await?,
            Ok(Stop::Exit(code)) => break Ok(code),
            Err(error) => break Err(error),
        }
    };
    service.stops();
    // The nodes of an instance end with it.
    let ends_jobs = ends_jobs || has_nodes && !is_elastic;
    let keep_jobs = recovery || std::env::var_os(DISABLE_JOB_CLEANUP).is_some();
    if result.is_ok() && ends_jobs && !keep_jobs {
        finish_jobs(&daemon, &mut signals).await;
    }
    // Without a command that has ended, the next manager takes over the allocations.
    let gives_back = ends_jobs && !keep_jobs;
    let ended = daemon.shutdown(gives_back).await;
    // An elastic instance finds allocations by what the file says, even those that couldn't be cancelled now.
    if has_nodes && !is_elastic {
        saved::remove(&state);
    }
    ended.map_err(CliError::failure)?;
    result
}

/// Why tables of allocations don't belong to a step.
const LAUNCHED: &str = "tables [[allocation]] make an instance that orders its nodes by itself: start it once, and not by a \
                        launcher on the nodes of an allocation";

/// The tables of an elastic instance.
fn tables(config: &Value) -> Result<Tables, CliError> {
    Tables::read(config).map_err(CliError::failure)
}

/// The elastic instance of this state, or a new one.
fn elastic(plan: &Plan, statedir: &StateDir) -> Result<Arc<Nodes>, CliError> {
    let state = statedir.path();
    match saved::load(state, now()).map_err(CliError::failure)? {
        Some((mut nodes, _)) if nodes.is_elastic() => {
            nodes.grace = plan.grace;
            Ok(Arc::new(nodes))
        }
        Some(_) => {
            let left = saved::found(state, now()).unwrap_or_default();
            Err(CliError::failure(nodes_left(&left)))
        }
        None => {
            let address = AllocationAddress::read(&plan.config).map_err(CliError::failure)?;
            let own = launcher::own_node(0).map_err(CliError::failure)?;
            let nodes = Nodes::elastic(&address, own, plan.grace).map_err(CliError::failure)?;
            // Its nodes find the next manager if this one is killed.
            saved::save(state, &nodes, 0.0)?;
            Ok(Arc::new(nodes))
        }
    }
}

impl Plan {
    fn new(args: StartArgs) -> Result<Self, CliError> {
        args.test.check(args.test_size.is_some())?;
        let test_size = test_size(args.test_size, args.test_hosts)?;
        let system = args.sysconfig.then(|| PathBuf::from(SYSTEM_CONFIG));
        let files: Vec<PathBuf> = system.into_iter().chain(args.config_path).collect();
        let source = Source::new(&files, args.conf).map_err(CliError::failure)?;
        let config = source.read().map_err(CliError::failure)?;
        let log_level = if args.verbose > 0 { Level::Info } else { Level::Warning };
        let (state_dir, command) = (args.state_dir, args.command);
        let (restore, dump, recovery) = (None, None, args.recovery.is_some());
        let mut plan = Self {
            source,
            config,
            state_dir,
            log_level,
            test_size,
            command,
            no_command: false,
            restore,
            dump,
            recovery,
            socket: None,
            config_path: files.last().cloned(),
            grace: launcher::GRACE,
            attributes: Vec::new(),
        };
        for attribute in args.setattr.iter().chain(&broker_attributes(&args.broker_opts)?) {
            plan.set(attribute)?;
        }
        if let Some(target) = args.recovery {
            plan.recover(target)?;
        }
        Ok(plan)
    }

    /// Sets the target of `--recovery`: a directory is used itself, an archive is restored into a temporary
    /// one.
    fn recover(&mut self, target: String) -> Result<(), CliError> {
        if target.is_empty() {
            let text =
                "--recovery: which one? name a state directory or an archive: --recovery=TARGET";
            return Err(CliError::failure(text));
        }
        let target = PathBuf::from(target);
        let found = std::fs::metadata(&target).map_err(|error| {
            CliError::failure(format!("--recovery: {}: {}", target.display(), system_text(&error)))
        })?;
        match (found.is_dir(), statedir::existing(&target)) {
            (true, Some(state)) => self.state_dir = Some(state),
            (true, None) => {
                let text = format!("--recovery: {} holds no state of a manager", target.display());
                return Err(CliError::failure(text));
            }
            (false, _) => self.restore = Some(target),
        }
        Ok(())
    }

    fn set(&mut self, attribute: &str) -> Result<(), CliError> {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match name {
            "statedir" => self.state_dir = Some(PathBuf::from(value)),
            "local-uri" => self.socket = Some(named_socket(value)?),
            "content.restore" => self.restore = Some(PathBuf::from(value)),
            "content.dump" => {
                // Absolute, so that it doesn't depend on the current directory at the end. Checked at the
                // start, since an archive that can't be written would be noticed only when a temporary state
                // is about to be removed.
                let file = std::path::absolute(value)?;
                if let Err(error) = files::check_target(&file)
                    // A missing directory isn't an error: the command may create it.
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    let text = system_text(&error);
                    let text = format!("content.dump: {}: {text}", file.display());
                    return Err(CliError::failure(text));
                }
                self.dump = Some(file);
            }
            NO_COMMAND => self.no_command = true,
            LONGEST_ABSENCE => {
                let time = value.parse::<Fsd>().ok().and_then(Fsd::to_duration);
                self.grace = time.ok_or_else(|| {
                    CliError::failure(format!("{LONGEST_ABSENCE}: use a time, such as 30s"))
                })?;
            }
            STDERR_LEVEL => {
                self.log_level = stderr_level(value).ok_or_else(|| {
                    CliError::failure(format!("{STDERR_LEVEL}: use a number from 0 to 7"))
                })?;
            }
            name if is_of_user(name) => {
                self.attributes.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                check_of_brokers(name).map_err(|e| CliError::failure(format!("{name}: {e}")))?;
                let text = format!("attribute {name} is not supported and ignored");
                stderr::line(&Prog::current().warning(COMMAND, text));
            }
        }
        Ok(())
    }
}

/// The socket of a manager for which no option names one. It is in the state directory, where clients find it again
/// after a restart, unless the path would be longer than the system allows.
fn own_socket(statedir: &StateDir, rundir: &RunDir) -> PathBuf {
    let socket = statedir.path().join("local-0");
    match socket.as_os_str().len() > uri::MAX_PATH {
        true => rundir.path.join("local-0"),
        false => socket,
    }
}

/// The socket of the attribute `local-uri`.
fn named_socket(address: &str) -> Result<PathBuf, CliError> {
    let wrong = |text: &str| CliError::failure(format!("local-uri: {text}"));
    let path = uri::to_path(address).map_err(|error| wrong(&error.to_string()))?;
    match path.is_absolute() && path.as_os_str().len() <= uri::MAX_PATH {
        true => Ok(path),
        false => Err(wrong(&format!(
            "{address}: the path of a socket is absolute and has at most {} bytes",
            uri::MAX_PATH
        ))),
    }
}

/// Restores an archive into an empty state directory.
fn restore(statedir: &StateDir, archive: &Path) -> Result<(), CliError> {
    let restored = restore_into(statedir.path(), archive)?;
    for path in restored.skipped {
        let text = format!("{path}: skipped: links between namespaces of a KVS can't be restored");
        stderr::line(&Prog::current().warning(COMMAND, text));
    }
    Ok(())
}

/// Checks `--test-size` and `--test-hosts`.
fn test_size(size: Option<i64>, hosts: Option<String>) -> Result<TestSize, CliError> {
    let size = match size {
        None if hosts.is_some() => {
            return Err(CliError::failure("--test-hosts only works with --test-size"));
        }
        None => None,
        Some(size) if size < 1 => {
            return Err(CliError::failure("--test-size argument must be > 0"));
        }
        Some(size) => Some(u32::try_from(size).map_err(|_| {
            CliError::failure(format!("--test-size={size}: at most {} is possible", u32::MAX))
        })?),
    };
    Ok(TestSize { size, hosts })
}

/// A directory for this run. Its `bin` links the names of the program to this executable, so that scripts
/// under the manager use the manager's own binary as client.
struct RunDir {
    path: PathBuf,
    /// Removes the directory, unless it is the temporary state directory.
    _own: Option<TemporaryDir>,
}

impl RunDir {
    fn new(statedir: &StateDir) -> Result<Self, CliError> {
        let own = match statedir.is_temporary() {
            true => None,
            false => Some(TemporaryDir::new().map_err(CliError::failure)?),
        };
        let path = own.as_ref().map_or(statedir.path(), TemporaryDir::path).to_path_buf();
        let bin = path.join("bin");
        std::fs::create_dir(&bin)?;
        let program = std::env::current_exe()?;
        for name in ["jobtap", "flux"] {
            symlink(&program, bin.join(name))?;
        }
        Ok(Self { path, _own: own })
    }

    fn bin(&self) -> PathBuf {
        self.path.join("bin")
    }
}

/// Why the manager stops.
enum Stop {
    /// The program exits with this code.
    Exit(u8),
    /// The manager restarts.
    Restart,
}

/// Restarts the manager. Sends SIGTERM to the command if that fails.
async fn restart(
    daemon: Daemon,
    child: Option<&Child>,
    expiration: &Expiration,
) -> Result<Daemon, CliError> {
    daemon.restart(expiration.last()).await.map_err(|error| {
        if let Some(child) = child {
            send(child, Signal::TERM);
        }
        CliError::failure(format!("the manager can't be restarted: {error}"))
    })
}

/// Runs the manager as a daemon until a signal terminates it. SIGALRM is the signal for a job that has
/// reached its time limit. SIGHUP reloads the configuration.
async fn serve(
    daemon: &Daemon,
    expiration: &mut Expiration,
    signals: &mut Signals,
    service: &mut ServiceManager,
) -> Result<Stop, CliError> {
    stderr::line_of(Level::Info, &format!("jobtap: manager ready at {}", daemon.uri()));
    service.ready(daemon);
    // A reload queries the name service, which may be slow; signals are handled meanwhile.
    let mut reload = None;
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return Ok(Stop::Exit(0)),
            _ = signals.alarm.recv() => return Ok(Stop::Exit(0)),
            _ = signals.interrupt.recv() => return Ok(Stop::Exit(0)),
            _ = signals.hangup.recv() => {
                service.reloads();
                reload = Some(daemon.reload());
            }
            () = finished(&mut reload) => service.ready(daemon),
            end = expiration.changed() => daemon.move_end(end),
            () = daemon.restart_asked() => return Ok(Stop::Restart),
            () = daemon.shutdown_asked() => return Ok(Stop::Exit(0)),
            () = service.watch(daemon) => {}
            reason = daemon.failure() => return Err(failed(&reason)),
        }
    }
}

/// Waits until a task has ended, and clears it. Without a task this never returns.
async fn finished(task: &mut Option<JoinHandle<()>>) {
    let Some(running) = task else { return pending().await };
    // A task that panicked has ended, too.
    let _ = running.await;
    *task = None;
}

/// Whether the command gets a process group of its own: that of a step of `srun`, to which this manager forwards all
/// signals. In the same group it would get twice those that are sent to the group. A terminal is only for one group.
fn is_own_group() -> bool {
    is_step() && !std::io::stdin().is_terminal()
}

/// Waits until the command exits, and forwards signals to it. SIGHUP reloads the configuration.
async fn supervise(
    daemon: &Daemon,
    child: &mut Child,
    expiration: &mut Expiration,
    signals: &mut Signals,
) -> Result<Stop, CliError> {
    let mut reload = None;
    let own_group = is_own_group();
    let forward = |child: &Child, signal| {
        if own_group {
            send(child, signal);
        }
    };
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => send(child, Signal::TERM),
            _ = signals.alarm.recv() => send(child, Signal::ALARM),
            _ = signals.hangup.recv() => match own_group {
                true => send(child, Signal::HUP),
                // Not forwarded: when a terminal hangs up, the system sends SIGHUP to the command too.
                false => reload = Some(daemon.reload()),
            },
            () = finished(&mut reload) => {}
            // Ctrl-C reaches a command in the same process group directly. SIGINT is caught here instead of ignored,
            // since the command would inherit that it is ignored. The other two mean nothing to a manager.
            _ = signals.interrupt.recv() => forward(child, Signal::INT),
            _ = signals.user1.recv() => forward(child, Signal::USR1),
            _ = signals.user2.recv() => forward(child, Signal::USR2),
            status = child.wait() => return Ok(Stop::Exit(exit_code(status?))),
            end = expiration.changed() => daemon.move_end(end),
            () = daemon.restart_asked() => return Ok(Stop::Restart),
            // As in Flux, the manager ends when the command does; the command's exit code is then 129.
            () = daemon.shutdown_asked() => send(child, Signal::HUP),
            reason = daemon.failure() => {
                send(child, Signal::TERM);
                return Err(failed(&reason));
            }
        }
    }
}

/// Cancels running jobs after the command has exited, and waits for them. A signal ends the wait, unless it comes
/// [at once](SAME_SIGNAL).
async fn finish_jobs(daemon: &Daemon, signals: &mut Signals) {
    let signal = async {
        let received = async {
            loop {
                signals.end().await;
            }
        };
        let _ = timeout(SAME_SIGNAL, received).await;
        signals.end().await;
    };
    tokio::select! {
        () = daemon.finish_jobs() => {}
        _ = daemon.failure() => {}
        () = signal => {}
    }
}

/// Runs the initial program. `inside` is the job that the manager runs as.
fn spawn(
    daemon: &Daemon,
    rundir: &RunDir,
    command: &[OsString],
    inside: Option<JobId>,
) -> Result<Child, CliError> {
    let words = words(command);
    let Some((program, arguments)) = words.split_first() else {
        return Err(CliError::failure("no command"));
    };
    let mut path = rundir.bin().into_os_string();
    if let Some(inherited) = std::env::var_os("PATH") {
        path.push(":");
        path.push(inherited);
    }
    // The manager has raised its own limit of open files, which the command must not inherit.
    let limit = OpenFiles::of_this_process().to_lower();
    let found = limited::Program { name: program, directory: None, path: Some(&path) };
    let command = limited::command(&found, limit);
    let mut command = Command::from(command.map_err(|error| cannot_run(program.as_ref(), &error))?);
    command.args(arguments).env("PATH", &path);
    enclosing::variables().for_each(|name| {
        command.env_remove(name);
    });
    command.env_remove(ENCLOSING).envs(inside.map(|id| (ENCLOSING, show_id(id))));
    command.env(uri::VARIABLE, daemon.uri()).env(uri::FLUX_VARIABLE, daemon.uri());
    if is_own_group() {
        command.process_group(0);
    }
    command.spawn().map_err(|error| cannot_run(program.as_ref(), &error))
}

/// The command with its arguments. The default is a shell. A single word that isn't a program is a command
/// line for a shell, as in `start 'cmd; cmd'`.
fn words(command: &[OsString]) -> Vec<OsString> {
    match command {
        [] => vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())],
        [line] if is_shell_line(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        words => words.to_vec(),
    }
}

fn is_shell_line(line: &OsString) -> bool {
    let text = line.to_string_lossy();
    text.contains([' ', '\t', '\n', ';', '|', '&', '>', '<', '$']) && !Path::new(line).exists()
}

fn cannot_run(program: &Path, error: &std::io::Error) -> CliError {
    let (code, hint) = match error.kind() {
        std::io::ErrorKind::NotFound => (127, "No such file or directory".to_owned()),
        std::io::ErrorKind::PermissionDenied => {
            let shown = program.display();
            (126, format!("not executable: chmod +x {shown}, or start it as `sh {shown}`"))
        }
        _ => (126, system_text(error)),
    };
    CliError { text: format!("{}: {hint}", program.display()), code }
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // An error means that the process has exited meanwhile.
        let _ = kill_process(pid, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let signaled = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signaled).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Prints why the manager failed. The error has no text, since the message has its own form.
fn failed(reason: &str) -> CliError {
    stderr::line_of(Level::Error, &format!("jobtap: {reason}"));
    CliError { text: String::new(), code: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_in_one_word_is_run_by_a_shell() {
        let one = |text: &str| words(&[OsString::from(text)]);
        assert_eq!(one("echo a; echo b"), ["/bin/sh", "-c", "echo a; echo b"]);
        assert_eq!(one("true"), ["true"]);
    }

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }

    #[test]
    fn a_command_that_is_not_executable_is_an_error_with_advice() {
        let error = cannot_run(
            Path::new("examples/quickstart.sh"),
            &std::io::ErrorKind::PermissionDenied.into(),
        );
        assert_eq!(error.code, 126);
        assert!(error.text.contains("chmod +x examples/quickstart.sh"), "{}", error.text);
    }
}
