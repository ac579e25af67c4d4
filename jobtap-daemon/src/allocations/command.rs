//! A command of the site, for any other job manager. It is called with one of three words:
//!
//! | words | what it does |
//! |---|---|
//! | `submit NAME SCRIPT OPTION...` | submits a job of this name that runs SCRIPT once on each of its nodes, and prints the job's id. The script holds a secret: it may be copied only to where the user alone can read it |
//! | `status NAME=ID...` | prints a line `NAME ID STATE [REASON]` for each of these jobs that it finds. STATE is `waiting`, `running` or `ended`. After a crash of the manager an ID can be empty: the job, if there is one, is found by its name |
//! | `cancel ID` | cancels a job, waiting or running |
//!
//! The environment of `submit` has `JOBTAP_NODES`, `JOBTAP_CORES` and `JOBTAP_GPUS` (of each node), and `JOBTAP_TIME_LIMIT`
//! (in seconds, if there is one). Exit code 75 says that the job manager can't be reached now; any other but 0, that it
//! refuses. What the command writes to its standard error is shown as the reason.

use std::time::Duration;

use super::outer::{Found, Order, OrderError, OuterManager, OuterState, Wanted};
use super::private_file::PrivateFiles;
use super::program::{Program, ProgramError, said};
use super::script;

/// How long the command may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The exit code of a command that doesn't reach the job manager, as `EX_TEMPFAIL` of sysexits.h.
const TRY_AGAIN: i32 = 75;

/// How many allocations are asked for at once: a command line has a limited length.
const AT_ONCE: usize = 1000;

/// The job manager behind a command.
pub(super) struct SiteCommand {
    /// The words of the command.
    pub(super) words: Vec<String>,
    pub(super) files: PrivateFiles,
}

impl SiteCommand {
    fn program<'a>(
        &self,
        more: impl IntoIterator<Item = String>,
        env: Vec<(&'a str, String)>,
    ) -> Program<'a> {
        let words = self.words.iter().cloned().chain(more).collect();
        Program { words, input: "", env, limit: LIMIT }
    }
}

impl OuterManager for SiteCommand {
    fn title(&self) -> &str {
        self.words.first().map_or("the command", String::as_str)
    }

    async fn order(&self, order: &Order) -> Result<String, OrderError> {
        let written = self.files.write(&order.name, &script::of_each_node(order));
        let script = written.map_err(|error| OrderError::Refused(error.to_string()))?;
        let words = ["submit".to_owned(), order.name.clone(), script.display().to_string()];
        let mut env = vec![
            ("JOBTAP_NODES", order.nodes.to_string()),
            ("JOBTAP_CORES", order.cores.to_string()),
            ("JOBTAP_GPUS", order.gpus.to_string()),
        ];
        env.extend(order.time_limit.map(|limit| ("JOBTAP_TIME_LIMIT", limit.ceil().to_string())));
        let words = words.into_iter().chain(order.options.iter().cloned());
        let printed = self.program(words, env).run().await?;
        let id = printed.stdout.trim();
        match printed.status.code() {
            Some(0) if !id.is_empty() && !id.contains(char::is_whitespace) => Ok(id.to_owned()),
            Some(0) => Err(OrderError::Unclear(format!("{} prints no id: {id:?}", self.title()))),
            Some(TRY_AGAIN) => Err(OrderError::Unclear(said(self.title(), &printed))),
            _ => Err(OrderError::Refused(said(self.title(), &printed))),
        }
    }

    async fn look(&self, wanted: &[Wanted]) -> Result<Vec<Found>, ProgramError> {
        let mut found = Vec::new();
        for some in wanted.chunks(AT_ONCE) {
            let named = some.iter().map(|Wanted { name, job }| {
                format!("{name}={}", job.as_deref().unwrap_or_default())
            });
            let words = std::iter::once("status".to_owned()).chain(named);
            let printed = self.program(words, Vec::new()).output().await?;
            for line in printed.lines().filter(|line| !line.trim().is_empty()) {
                found.push(read(line).ok_or_else(|| ProgramError::Unreadable {
                    program: self.title().to_owned(),
                    line: line.to_owned(),
                })?);
            }
        }
        Ok(found)
    }

    async fn cancel(&self, job: &str) -> Result<(), ProgramError> {
        let words = ["cancel".to_owned(), job.to_owned()];
        self.program(words, Vec::new()).output().await.map(drop)
    }

    /// Its script isn't needed any more.
    fn forget(&self, name: &str) {
        self.files.remove(name);
    }
}

/// Reads a line of `status`.
pub(super) fn read(line: &str) -> Option<Found> {
    let (name, rest) = line.trim().split_once(' ')?;
    let (job, rest) = rest.trim().split_once(' ')?;
    let (state, reason) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let told = || if reason.is_empty() { state } else { reason.trim() }.to_owned();
    let state = match state {
        "waiting" => OuterState::Waits(told()),
        "running" => OuterState::Runs(None),
        "ended" => OuterState::Ended(told()),
        _ => return None,
    };
    Some(Found { name: name.to_owned(), job: job.to_owned(), state })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn order(name: &str) -> Order {
        Order {
            name: name.to_owned(),
            options: vec!["-q".to_owned(), "short".to_owned()],
            nodes: 2,
            cores: 8,
            gpus: 0,
            time_limit: Some(90.0),
            invitation: "{}".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_command_is_asked_as_it_is_documented() {
        let state = tempfile::tempdir().unwrap();
        let files = PrivateFiles::new(state.path());
        let script = r#"case $1 in
            submit) [ "$2" = no ] && { echo "no such queue" >&2; exit 1; }
                [ "$2" = later ] && exit 75
                echo "$4$5$JOBTAP_NODES/$JOBTAP_CORES/$JOBTAP_TIME_LIMIT" ;;
            status) shift; echo "${1%=*} 17 running"; echo "b 18 waiting too many jobs" ;;
            cancel) exit 0 ;;
        esac"#;
        let words = ["sh", "-c", script, "site"].map(str::to_owned).into();
        let site = SiteCommand { words, files };
        assert_eq!(site.order(&order("a")).await.unwrap(), "-qshort2/8/90");
        let file = state.path().join("allocations/a");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let refused = site.order(&order("no")).await.unwrap_err();
        assert!(matches!(&refused, OrderError::Refused(text) if text == "no such queue"));
        assert!(matches!(site.order(&order("later")).await, Err(OrderError::Unclear(_))));
        let wanted = Wanted { name: "a".to_owned(), job: None };
        let found = site.look(&[wanted]).await.unwrap();
        assert_eq!((found[0].job.as_str(), &found[0].state), ("17", &OuterState::Runs(None)));
        assert_eq!(found[1].state, OuterState::Waits("too many jobs".to_owned()));
        site.cancel("17").await.unwrap();
        site.forget("a");
        assert!(!file.exists());
        assert_eq!(read("a 17 gone"), None);
    }
}
