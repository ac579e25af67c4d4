//! `kvs.*`: the stored keys as a read-only tree, like Flux's KVS without a way to write. Names are those of RFC 16, and
//! dots separate directories.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jobtap_core::engine::{Cred, Engine, Write};
use jobtap_core::eventlog::Name;
use jobtap_core::job::{Encoding, JobId};
use tokio::sync::mpsc::{Sender, channel};

use super::handle::{Context, Handle, PendingResponse, owner, written};
use crate::archive::{self, Overrides};
use crate::daemon::engine::answered;
use crate::daemon::engine::replies::shutting_down;
use crate::daemon::records::{Records, unreadable};
use crate::daemon::watchers::hub::Commits;
use crate::rpc::errno::{EFBIG, EINVAL, EIO, EISDIR, ENOENT, ENOTDIR};
use crate::rpc::service::Service;
use crate::rpc::services::kvs::{Dump, Dumped, Found, Keys, List, Lookup, Watch};
use crate::rpc::{RpcError, RpcResult};
use crate::store::{GuestFiles, Key};

/// The directory of the keys of jobs.
const JOB: &str = "job";
/// How many components the directory of a job has: `job` and four groups of its id.
const JOB_DEPTH: usize = 5;
/// The interval at which a file that grows outside of commits is read.
const FILE_POLL: Duration = Duration::from_millis(100);
/// The pause between two looks at a watched key, so that many commits lead to few looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl Handle for Lookup {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let (records, cred) = (context.parts.records.clone(), context.cred);
        PendingResponse::one(in_background(move || {
            written::<Self>(&lookup(&records, cred, &self.key)?)
        }))
    }
}

impl Handle for Watch {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if !context.streaming {
            return Err(RpcError::proto("kvs.watch requires streaming RPC flag"));
        }
        let (records, cred) = (context.parts.records.clone(), context.cred);
        // Before the first look, so that no commit is missed in between.
        let commits = context.parts.hub.commits();
        let (sender, receiver) = channel(1);
        tokio::spawn(watch(records, cred, self, commits, sender));
        Ok(PendingResponse::Feed(receiver))
    }
}

/// Sends the value of a key, and each different one that follows, until the client leaves or the manager ends.
async fn watch(
    records: Records,
    cred: Cred,
    request: Watch,
    mut commits: Commits,
    sender: Sender<RpcResult>,
) {
    let in_file = GuestFiles::names().any(|name| request.key.ends_with(name));
    let mut last = None;
    loop {
        let (records, key) = (records.clone(), request.key.clone());
        let look = move || written::<Lookup>(&lookup(&records, cred, &key)?);
        match in_background(look).await {
            Ok(value) if last.as_ref() != Some(&value) => {
                last = Some(value.clone());
                if sender.send(Ok(value)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(error) if error.errno == ENOENT && request.waitcreate && last.is_none() => {}
            Err(error) => return drop(sender.send(Err(error)).await),
        }
        tokio::select! {
            more = commits.next() => if !more {
                let _ = sender.try_send(Err(shutting_down()));
                return;
            },
            // The output of a job is not part of a commit.
            () = tokio::time::sleep(FILE_POLL), if in_file => {}
            () = sender.closed() => return,
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

impl Handle for List {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let (records, cred) = (context.parts.records.clone(), context.cred);
        PendingResponse::one(in_background(move || {
            let keys = list(&records, cred, &self.key, self.recursive)?;
            written::<Self>(&Keys { keys: keys.into_iter().collect() })
        }))
    }
}

impl Handle for Dump {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let (engine, records) = (context.engine.clone(), context.parts.records.clone());
        PendingResponse::one(async move {
            let newer = answered(engine.read(|engine| Ok(checkpoint(engine)))).await?;
            in_background(move || written::<Self>(&dump(&records, newer, &self.file)?)).await
        })
    }
}

/// Runs `work` on a thread that serves no other requests, since a tree may be large.
async fn in_background(work: impl FnOnce() -> RpcResult + Send + 'static) -> RpcResult {
    let work = tokio::task::spawn_blocking(work);
    work.await.unwrap_or_else(|_| Err(RpcError::new(EIO, "the look at the store broke down")))
}

/// The checkpoint that the manager would store if it ended now.
fn checkpoint(engine: &Engine) -> Overrides {
    match engine.checkpoint() {
        Write::PutInstance { key, value } => Overrides::from([(key, value.into_bytes())]),
        _ => Overrides::new(),
    }
}

/// Writes an archive in which `newer` takes the place of what is stored.
fn dump(records: &Records, newer: Overrides, file: &Path) -> Result<Dumped, RpcError> {
    if !file.is_absolute() {
        let text = format!("{}: 'file' is not an absolute path", Dump::TOPIC);
        return Err(RpcError::new(EINVAL, text));
    }
    let counts = archive::dump(records.store().as_ref(), records.files(), newer, file)
        .map_err(|error| RpcError::new(EIO, error.to_string()))?;
    Ok(Dumped { jobs: counts.jobs, keys: counts.keys })
}

fn lookup(records: &Records, cred: Cred, text: &str) -> Result<Found, RpcError> {
    allow(records, cred, text)?;
    let found = match text.parse::<Key>() {
        Ok(key) if !key.is_index() => value(records, cred, &key)?,
        _ => None,
    };
    match found {
        Some(value) => Ok(Found::new(value)),
        None if keys_in(records, text, false)?.is_empty() && !is_root_of_guest(records, text)? => {
            Err(RpcError::new(ENOENT, ""))
        }
        None => Err(RpcError::new(EISDIR, "")),
    }
}

fn value(records: &Records, cred: Cred, key: &Key) -> Result<Option<Vec<u8>>, RpcError> {
    if let Some(id) = key.job_id()
        && let Some(bytes) = records.read_file(JobId::new(id), key.name(), cred)?
    {
        return Ok(Some(bytes));
    }
    match records.store().get(key).map_err(unreadable)? {
        Some(value) => Ok(Some(value)),
        None => records.store().read_log(key).map_err(unreadable),
    }
}

fn list(
    records: &Records,
    cred: Cred,
    text: &str,
    recursive: bool,
) -> Result<BTreeSet<String>, RpcError> {
    let directory = text.trim_end_matches('.');
    allow(records, cred, directory)?;
    let keys = keys_in(records, directory, recursive)?;
    if keys.is_empty() && !directory.is_empty() && !is_root_of_guest(records, directory)? {
        let is_key = directory.parse::<Key>().is_ok_and(|key| {
            let found = value(records, cred, &key);
            !key.is_index()
                && found.map_or_else(|error| error.errno == EFBIG, |value| value.is_some())
        });
        return Err(RpcError::new(if is_key { ENOTDIR } else { ENOENT }, ""));
    }
    Ok(keys)
}

/// Refuses guests keys other than those of their own jobs.
fn allow(records: &Records, cred: Cred, text: &str) -> Result<(), RpcError> {
    let Some(id) = job_of(text) else {
        return owner(cred);
    };
    match records.main_log_for(id, cred) {
        // The owner may read keys of a job without an eventlog.
        Err(_) if cred.owner => Ok(()),
        other => other.map(drop),
    }
}

/// The job in whose directory a key is, or whose directory it names.
fn job_of(text: &str) -> Option<JobId> {
    let mut parts = text.splitn(JOB_DEPTH + 1, '.');
    if parts.next() != Some(JOB) {
        return None;
    }
    let id: Vec<&str> = parts.by_ref().take(JOB_DEPTH - 1).collect();
    let whole = id.len() == JOB_DEPTH - 1 && id.iter().all(|group| group.len() == 4);
    if !whole {
        return None;
    }
    format!("{JOB}.{}", id.join(".")).parse().ok()
}

/// Whether this directory has the keys of a job's guest. As in Flux it is there before the first task starts, and so
/// while it is still empty: a task may list it before the first event of its execution is stored.
fn is_root_of_guest(records: &Records, directory: &str) -> Result<bool, RpcError> {
    let Some(id) = job_of(directory) else { return Ok(false) };
    if directory != format!("{}.guest", id.encode(Encoding::Kvs)) {
        return Ok(false);
    }
    match records.main_log(id) {
        Ok(log) => Ok(log.has(&Name::Alloc)),
        Err(error) if error.errno == ENOENT => Ok(false),
        Err(error) => Err(error),
    }
}

/// The keys in a directory, in byte order; those of directories end in a dot.
fn keys_in(
    records: &Records,
    directory: &str,
    recursive: bool,
) -> Result<BTreeSet<String>, RpcError> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}.") };
    let depth = if directory.is_empty() { 0 } else { directory.split('.').count() };
    let above_jobs = depth < JOB_DEPTH && (depth == 0 || directory.split('.').next() == Some(JOB));
    let store = records.store();
    let all: Vec<String> = match above_jobs && !recursive {
        // There may be a million jobs. Their directories follow from their ids, without their keys.
        true => {
            let instance = store.instance_keys().map_err(unreadable)?;
            let jobs = store.job_ids().map_err(unreadable)?.into_iter();
            let jobs = jobs.map(|id| format!("{}.", JobId::new(id).encode(Encoding::Kvs)));
            let instance = instance.into_iter().filter(|key| !key.is_index());
            instance.map(|key| key.to_string()).chain(jobs).collect()
        }
        false => stored_and_files(records, &prefix)?,
    };
    let below = all.into_iter().filter(|key| key.starts_with(&prefix) && key.len() > prefix.len());
    if recursive {
        return Ok(below.collect());
    }
    let child = |key: String| {
        let rest = key.get(prefix.len()..).unwrap_or_default();
        match rest.split_once('.') {
            Some((name, _)) => format!("{prefix}{name}."),
            None => key,
        }
    };
    Ok(below.map(child).collect())
}

/// All keys that begin with `prefix`: those in the store, and those of the files of jobs.
fn stored_and_files(records: &Records, prefix: &str) -> Result<Vec<String>, RpcError> {
    let mut keys = records.store().list(prefix).map_err(unreadable)?;
    keys.retain(|key| !key.is_index());
    let mut jobs: BTreeSet<u64> = keys.iter().filter_map(Key::job_id).collect();
    jobs.extend(job_of(prefix).map(JobId::as_u64));
    let mut all: Vec<String> = keys.into_iter().map(|key| key.to_string()).collect();
    for id in jobs {
        for name in GuestFiles::names() {
            let there = records.files().path(id, name).is_some_and(|path| path.exists());
            if there && let Ok(key) = Key::job(id, name) {
                all.push(key.to_string());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobtap_core::job::Uid;

    use super::*;
    use crate::rpc::errno::EPERM;
    use crate::store::memory::MemoryStore;
    use crate::store::{Op, Store};

    const OWNER: Cred = Cred { userid: Uid::new(0), owner: true };
    const GUEST: Cred = Cred { userid: Uid::new(7), owner: false };

    fn records(state: &Path) -> Records {
        let store = MemoryStore::default();
        let submit = "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"userid\":7,\"urgency\":16,\"flags\":0,\"version\":1}}\n";
        let put = |key, value: &str| Op::Put { key, value: value.into() };
        store
            .commit(vec![
                put(Key::checkpoint(), "{}"),
                put(Key::instance("a.b.c").unwrap(), "1"),
                put(Key::instance(Key::INDEXED).unwrap(), "1"),
                put(Key::instance(&format!("{}1", Key::INDEX)).unwrap(), "{}"),
                put(Key::jobspec(0x1_0002), "{}"),
                Op::Append { key: Key::eventlog(0x1_0002), seq: 0, value: submit.into() },
                put(Key::data(0x1_0002, "x").unwrap(), "\u{0}"),
                put(Key::jobspec(0x1_0003), "{}"),
            ])
            .unwrap();
        let files = GuestFiles::new(state);
        let output = files.path(0x1_0002, "guest.output").unwrap();
        std::fs::create_dir_all(output.parent().unwrap()).unwrap();
        std::fs::write(output, [0xff]).unwrap();
        Records::new(Arc::new(store), state)
    }

    #[test]
    fn directories_end_in_a_dot() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path());
        let ls = |key, recursive| -> Vec<String> {
            list(&records, OWNER, key, recursive).unwrap().into_iter().collect()
        };
        assert_eq!(ls(".", false), ["a.", "checkpoint.", "job."]);
        assert_eq!(ls("a", true), ["a.b.c"]);
        assert_eq!(ls("job.0000.0000", false), ["job.0000.0000.0001."]);
        let job = "job.0000.0000.0001";
        assert_eq!(ls(job, false), [format!("{job}.0002."), format!("{job}.0003.")]);
        let names = ["data.x", "eventlog", "guest.output", "jobspec"];
        let id = format!("{job}.0002");
        assert_eq!(ls(&id, true), names.map(|name| format!("{id}.{name}")));
        let names = ["data.", "eventlog", "guest.", "jobspec"];
        assert_eq!(ls(&id, false), names.map(|name| format!("{id}.{name}")));
        let guest = format!("{id}.guest");
        assert_eq!(ls(&guest, false), [format!("{guest}.output")]);
        assert_eq!(ls(".", true).len(), 7);
        let errno = |key| list(&records, OWNER, key, false).unwrap_err().errno;
        assert_eq!((errno("nosuch"), errno("a.b.c")), (ENOENT, ENOTDIR));
        // The index is not part of the tree.
        assert_eq!((errno("jobtap"), errno(Key::INDEXED)), (ENOENT, ENOENT));
        assert_eq!(lookup(&records, OWNER, Key::INDEXED).unwrap_err().errno, ENOENT);
    }

    #[test]
    fn values_are_text_or_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path());
        let get = |key: &str| lookup(&records, OWNER, key);
        assert_eq!(get("a.b.c").unwrap(), Found::Text { value: "1".to_owned() });
        let output = get("job.0000.0000.0001.0002.guest.output").unwrap();
        assert_eq!(output, Found::Bytes { base64: "/w==".to_owned() });
        assert_eq!(get("a.b").unwrap_err().errno, EISDIR);
        assert_eq!(get("job.0000.0000.0001").unwrap_err().errno, EISDIR);
        assert_eq!(get("a.x").unwrap_err().errno, ENOENT);
        assert_eq!(get("").unwrap_err().errno, EISDIR);
    }

    #[test]
    fn guests_see_their_own_jobs_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path());
        let mine = "job.0000.0000.0001.0002";
        assert!(lookup(&records, GUEST, &format!("{mine}.jobspec")).is_ok());
        assert!(list(&records, GUEST, mine, true).is_ok());
        for key in ["a.b.c", "", "job", "job.0000.0000.0001", "checkpoint.job-manager"] {
            assert_eq!(lookup(&records, GUEST, key).unwrap_err().errno, EPERM, "{key}");
            assert_eq!(list(&records, GUEST, key, true).unwrap_err().errno, EPERM, "{key}");
        }
        let other = Cred { userid: Uid::new(8), owner: false };
        assert_eq!(list(&records, other, mine, true).unwrap_err().errno, EPERM);
        assert!(lookup(&records, GUEST, "job.0000.0000.0001.0003.jobspec").is_err());
    }

    #[test]
    fn the_namespace_of_a_job_that_can_start_is_there_while_empty() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path());
        let ls = |guest: &str| list(&records, OWNER, guest, false).map_err(|error| error.errno);
        let errno = |key: &str| lookup(&records, OWNER, key).unwrap_err().errno;
        let guest = "job.0000.0000.0001.0005.guest";
        let append = |seq, name: &str| {
            let value = format!("{{\"timestamp\":1.0,\"name\":\"{name}\"}}\n").into_bytes();
            let key = Key::eventlog(0x1_0005);
            records.store().commit(vec![Op::Append { key, seq, value }]).unwrap();
        };
        assert_eq!((ls(guest), errno(guest)), (Err(ENOENT), ENOENT), "no such job");
        append(0, "depend");
        assert_eq!((ls(guest), errno(guest)), (Err(ENOENT), ENOENT), "it has no resources");
        append(1, "alloc");
        assert_eq!((ls(guest), errno(guest)), (Ok(BTreeSet::new()), EISDIR));
        let below = format!("{guest}.exec");
        assert_eq!((ls(&below), errno(&below)), (Err(ENOENT), ENOENT));
    }

    #[test]
    fn a_guest_gets_no_large_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let records = records(dir.path());
        let id = JobId::new(0x0001_0002);
        let file = std::fs::File::create(records.file(id, "guest.output").unwrap()).unwrap();
        let output = "job.0000.0000.0001.0002.guest.output";
        file.set_len(4 << 20).unwrap();
        assert!(lookup(&records, GUEST, output).is_ok());
        file.set_len((4 << 20) + 1).unwrap();
        let refused = lookup(&records, GUEST, output).unwrap_err();
        assert_eq!(refused.errno, EFBIG);
        assert!(refused.text.starts_with("guest.output: more than 4 MiB"), "{}", refused.text);
        assert_eq!(list(&records, GUEST, output, false).unwrap_err().errno, ENOTDIR);
        assert!(lookup(&records, OWNER, output).is_ok());
    }
}
