//! `uri`: prints the address of a manager that is named by a job or by a process.

use std::fs;
use std::process::ExitCode;

use jobtap_core::eventlog::{Event, Name};
use jobtap_core::job::JobId;
use serde_json::Value;

use crate::cli::common::message::CliError;
use crate::cli::common::reach;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::attr;
use crate::cli::job::EventStream;
use crate::client::{Client, RpcError};
use crate::exec::SHEPHERD_ARGUMENT;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_list::{ALL, ListId};
use crate::rpc::uri;

const COMMAND: &str = "uri";

/// Options and arguments of `uri`.
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Targets:\n",
    "  [jobid:]PATH  a manager that runs as a job: job ids separated by /, where .. is the manager's\n",
    "                own job one level up, and a leading / the outermost manager\n",
    "  pid:PID       the manager with this process id, or that of this process's environment\n",
    "  local://PATH  the socket of a manager",
))]
pub(crate) struct UriArgs {
    /// Refused: managers are reached only on their own host
    #[arg(long, conflicts_with = "local")]
    remote: bool,
    /// Accepted without effect: all addresses are local
    #[arg(long)]
    local: bool,
    /// Wait until the manager of a job has started
    #[arg(long)]
    wait: bool,
    /// Job or process, see below
    #[arg(value_name = "TARGET")]
    target: String,
}

/// Runs the command.
pub(crate) fn run(args: UriArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let (target, query) = args.target.split_once('?').unwrap_or((&args.target, ""));
        let asks = |word: &str| query.split('&').any(|part| part == word);
        if args.remote || asks("remote") {
            let text =
                "--remote: a manager is reached only on its own host, by its local:// address";
            return Err(CliError::failure(text));
        }
        let uri = resolve(target, args.wait || asks("wait"), Address::Own).await?;
        session::print(&format!("{uri}\n"))?;
        Ok(0)
    })
}

/// The address by which the manager that a target names is reached from here, for as long as this process runs.
pub(in crate::cli) async fn from_here(target: &str) -> Result<String, CliError> {
    resolve(target, false, Address::FromHere).await
}

/// Connects to the manager that a target names.
pub(in crate::cli) async fn connect_to(target: &str) -> Result<Client, CliError> {
    connect(&from_here(target).await?).await
}

/// Which address of a manager that runs as a job is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    /// The one that it has itself, which may be that of a socket on another host.
    Own,
    /// One by which this process reaches it.
    FromHere,
}

/// The address that a target names. With `wait`, the manager of a job may still have to start.
async fn resolve(target: &str, wait: bool, address: Address) -> Result<String, CliError> {
    match target.split_once(':') {
        None => of_path(target, wait, address).await,
        Some(("jobid", path)) => of_path(path, wait, address).await,
        Some(("pid", pid)) => of_process(pid),
        Some(("local", _)) => {
            uri::to_path(target).map(|path| uri::of_path(&path)).map_err(CliError::failure)
        }
        Some((scheme, _)) => {
            let text = format!("No plugin for URI scheme {scheme}: use jobid, pid or local");
            Err(CliError::failure(text))
        }
    }
}

/// A step on the way to a manager.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// To the outermost manager.
    Root,
    /// To the manager that runs the present one as a job.
    Parent,
    /// To the manager that runs as this job.
    Job(&'a str),
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let root = path.starts_with('/').then_some(Step::Root);
    let words = path.split('/').filter(|word| !word.is_empty() && *word != ".");
    let steps = words.map(|word| if word == ".." { Step::Parent } else { Step::Job(word) });
    root.into_iter().chain(steps).collect()
}

async fn of_path(path: &str, wait: bool, address: Address) -> Result<String, CliError> {
    let mut at = uri::of_path(&Client::socket()?);
    let mut steps = steps(path).into_iter().peekable();
    while let Some(step) = steps.next() {
        let client = connect(&at).await?;
        at = match step {
            Step::Parent => parent(&client).await?.unwrap_or(at),
            Step::Root => {
                let mut outer = parent(&client).await?;
                while let Some(next) = outer {
                    outer = parent(&connect(&next).await?).await?;
                    at = next;
                }
                at
            }
            Step::Job(word) => {
                let job = of_job(&client, word, wait).await?;
                let own = uri_of(&job, word)?;
                let ranks = job.get("ranks").and_then(Value::as_str).unwrap_or_default();
                match address {
                    Address::Own if steps.peek().is_none() => own,
                    _ => reach::address(&client, &own, ranks).await?,
                }
            }
        };
    }
    Ok(at)
}

/// Connects to the manager at an address.
pub(in crate::cli) async fn connect(uri: &str) -> Result<Client, CliError> {
    Ok(Client::connect_to(&uri::to_path(uri).map_err(CliError::failure)?).await?)
}

/// The address of the manager one level up. `None` for the outermost one.
pub(in crate::cli) async fn parent(client: &Client) -> Result<Option<String>, CliError> {
    match attr::value(client, "instance-level".to_owned()).await?.as_str() {
        "0" => Ok(None),
        _ => attr::value(client, "parent-uri".to_owned()).await.map(Some),
    }
}

async fn of_job(client: &Client, word: &str, wait: bool) -> Result<Value, CliError> {
    let id: JobId =
        word.parse().map_err(|_| CliError::failure(format!("{word} is not a valid Flux jobid")))?;
    let missing = |error: RpcError| match error.errno {
        ENOENT => CliError::failure(format!("jobid {word} not found")),
        _ => error.into(),
    };
    if wait {
        wait_for_memo(client, id).await.map_err(missing)?;
    }
    Ok(client.call(ListId { id, attrs: ALL }).await.map_err(missing)?.job)
}

/// The address in the memo of a job.
fn uri_of(job: &Value, word: &str) -> Result<String, CliError> {
    let running = jobtap_core::job::State::Run.value();
    if job.get("state").and_then(Value::as_u64) != Some(u64::from(running)) {
        return Err(CliError::failure(format!("jobid {word} is not running")));
    }
    let uri = job.pointer("/annotations/user/uri").and_then(Value::as_str);
    let uri = uri.filter(|uri| !uri.is_empty()).map(str::to_owned);
    uri.ok_or_else(|| CliError::failure(format!("URI not found for job {word}")))
}

/// Waits until the job has a memo with an address, or has finished.
async fn wait_for_memo(client: &Client, id: JobId) -> Result<(), RpcError> {
    let mut events = EventStream::open(client, id, "eventlog", false).await?;
    while let Some(event) = events.next().await {
        let event = event?;
        let has_uri = matches!(event.event(), Ok(Event::Memo(memo)) if memo.contains_key("uri"));
        if has_uri || event.name == Name::Finish {
            break;
        }
    }
    Ok(())
}

/// The address in the environment of a process. A manager has its own address only in the environment of the
/// processes that it has started.
fn of_process(pid: &str) -> Result<String, CliError> {
    let number: u32 =
        pid.parse().map_err(|_| CliError::failure(format!("{pid} is not a process id")))?;
    let failed = |error| CliError::failure(format!("pid {number}: {error}"));
    if words(number, "cmdline").map_err(failed)?.get(1).is_some_and(|word| word == "start") {
        let child = children(number).into_iter().find_map(|child| {
            let is_shepherd =
                words(child, "cmdline").ok()?.iter().any(|word| word == SHEPHERD_ARGUMENT);
            if is_shepherd { None } else { variable(&words(child, "environ").ok()?) }
        });
        let text = format!("PID {number} is a manager and no child found");
        return child.ok_or_else(|| CliError::failure(text));
    }
    let found = variable(&words(number, "environ").map_err(failed)?);
    found.ok_or_else(|| CliError::failure(format!("PID {number} doesn't seem to have a FLUX_URI")))
}

/// The words of a file below `/proc/PID`, which end in a null byte.
fn words(pid: u32, file: &str) -> std::io::Result<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/{file}"))?;
    Ok(bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect())
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let list: String = lists.collect();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn variable(environment: &[String]) -> Option<String> {
    let value = |name: &str| {
        let values =
            environment.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.map(str::to_owned).next()
    };
    value(uri::VARIABLE).or_else(|| value(uri::FLUX_VARIABLE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_a_way_through_the_managers() {
        assert_eq!(steps(""), []);
        assert_eq!(steps("."), []);
        assert_eq!(steps("f1/f2"), [Step::Job("f1"), Step::Job("f2")]);
        assert_eq!(steps("/f1/.."), [Step::Root, Step::Job("f1"), Step::Parent]);
    }

    #[test]
    fn only_a_running_job_with_a_memo_has_an_address() {
        let uri = |job: Value| uri_of(&job, "f1").map_err(|error| error.text);
        let memo = json!({"user": {"uri": "local:///a"}});
        assert_eq!(uri(json!({"state": 16, "annotations": memo})).unwrap(), "local:///a");
        assert_eq!(uri(json!({"state": 16})).unwrap_err(), "URI not found for job f1");
        let ended = uri(json!({"state": 64, "annotations": memo}));
        assert_eq!(ended.unwrap_err(), "jobid f1 is not running");
    }

    #[test]
    fn our_variable_comes_before_that_of_flux() {
        let lines =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let both = lines(&["FLUX_URI=local:///f", "A=1", "JOBTAP_URI=local:///j"]);
        assert_eq!(variable(&both).unwrap(), "local:///j");
        assert_eq!(variable(&lines(&["FLUX_URI=local:///f"])).unwrap(), "local:///f");
        assert_eq!(variable(&lines(&["XFLUX_URI=a", "FLUX_URIX=b"])), None);
    }
}
