//! Implements [`Daemon`] with the functions of slurmctld and slurmd.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jobtap_core::plugin::Level;
use jobtap_core::slurm::{NO_VAL16, Partition, Release};

use super::canary::check_partition;
use super::layout;
use super::memory::{free, read_text};
use super::structures::{PartitionFor, member_number, member_text};
use super::symbols;
use crate::daemon::{Daemon, Part, PrepEnd};
use crate::job_submit::Surroundings;
use crate::prep::FAILED;
use crate::structure::Mismatch;

/// The daemon that has loaded this file.
#[derive(Debug)]
pub(super) struct Loader;

/// The addresses of slurmctld's callbacks for the ends of prologs and epilogs; 0 until it has registered them.
static PROLOG_ENDED: AtomicUsize = AtomicUsize::new(0);
static EPILOG_ENDED: AtomicUsize = AtomicUsize::new(0);

type Ended = unsafe extern "C" fn(c_int, u32, bool);

/// Stores slurmctld's callbacks.
///
/// # Safety
/// `callbacks` is null or points to slurmctld's `prep_callbacks_t`.
pub(super) unsafe fn register_callbacks(callbacks: *const c_void) {
    for (name, slot) in [("prolog_slurmctld", &PROLOG_ENDED), ("epilog_slurmctld", &EPILOG_ENDED)] {
        if let Some(member) = layout::find(layout::PREP_CALLBACKS, name)
            && !callbacks.is_null()
        {
            // SAFETY: `callbacks` isn't null, so the caller guarantees slurmctld's structure. The member is a pointer
            // to a function, which is read as a number.
            let address = unsafe { callbacks.byte_add(member.offset).cast::<usize>().read() };
            slot.store(address, Ordering::Relaxed);
        }
    }
}

/// Returns the callback for the end of a prolog or epilog. slurmctld registers its callbacks only at its start. For a
/// plugin that it loads later because `PrEpPlugins` has changed, they are looked up by name.
fn ended(part: Part) -> Option<Ended> {
    let (slot, known) = match part {
        Part::Prolog => (&PROLOG_ENDED, symbols::prolog_ended as fn() -> Option<Ended>),
        Part::Epilog => (&EPILOG_ENDED, symbols::epilog_ended as fn() -> Option<Ended>),
    };
    match slot.load(Ordering::Relaxed) {
        0 => known(),
        // SAFETY: slurmctld has registered this address, which isn't 0, as a function of this type.
        address => Some(unsafe { std::mem::transmute::<usize, Ended>(address) }),
    }
}

impl Daemon for Loader {
    fn log(&self, level: Level, text: &str) {
        let log = match level {
            Level::Error => symbols::log_error(),
            Level::Warning | Level::Info => symbols::log_info(),
            Level::Debug => symbols::log_debug(),
        };
        let text = CString::new(text.replace('\0', " "));
        if let (Some(log), Ok(text)) = (log, text) {
            // SAFETY: the format takes one NUL-terminated string. Any thread may use Slurm's log.
            unsafe { log(c"%s".as_ptr(), text.as_ptr()) };
        }
    }

    fn config_file(&self, name: &str) -> PathBuf {
        let found =
            symbols::extra_conf_path().zip(CString::new(name).ok()).and_then(|(path, name)| {
                // SAFETY: the function only reads the name, and returns a path that the caller frees. `text` is a copy.
                unsafe {
                    let path = path(name.as_ptr());
                    let text = read_text(path).map(|text| text.into_owned());
                    free(path.cast());
                    text
                }
            });
        PathBuf::from(found.unwrap_or_else(|| format!("/etc/slurm/{name}")))
    }

    fn configured_at(&self) -> i64 {
        configured("last_update").and_then(|at| i64::try_from(at).ok()).unwrap_or(0)
    }

    fn prep_timeout(&self, part: Part) -> Option<Duration> {
        // From 25.05 on there are two, which `PrologEpilogTimeout` both sets.
        let own = match part {
            Part::Prolog => "prolog_timeout",
            Part::Epilog => "epilog_timeout",
        };
        let seconds = configured("prolog_epilog_timeout").or_else(|| configured(own))?;
        (seconds != u64::from(NO_VAL16)).then(|| Duration::from_secs(seconds))
    }

    fn prepare_thread(&self) {
        // SAFETY: `sigfillset` initializes `signals`, for which zeros are valid too. Only this thread's mask changes.
        unsafe {
            let mut signals = std::mem::zeroed::<libc::sigset_t>();
            libc::sigfillset(&raw mut signals);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        }
    }

    fn controller_ended(&self, part: Part, job: u32, end: &PrepEnd) {
        let Some(ended) = ended(part) else {
            let text = format!("jobtap: job {job}: slurmctld takes no end of a {part:?}");
            return self.log(Level::Error, &text);
        };
        // slurmctld treats a timeout as a failure only if the status is that of a killed process.
        let (status, timed_out) = match end {
            PrepEnd::Done => (0, false),
            PrepEnd::Failed(_) => (FAILED, false),
            PrepEnd::TimedOut => (libc::SIGKILL, true),
            // The same status as for a script that slurmctld has killed because the job was canceled.
            PrepEnd::Cancelled => (libc::SIGKILL, false),
        };
        // SAFETY: this is slurmctld's own function, with this type. It takes slurmctld's locks, and this thread, the
        // one of `prep::Controller`, holds none.
        unsafe { ended(status, job, timed_out) };
    }

    fn is_over(&self, job: u32) -> bool {
        let (Some(lock), Some(unlock), Some(find)) =
            (symbols::lock(), symbols::unlock(), symbols::find_job())
        else {
            return false;
        };
        let locks = symbols::Locks { conf: 0, job: 1, node: 0, part: 0, fed: 0, select_node: 0 };
        // SAFETY: these are slurmctld's own functions, with these types. This thread, the one of `prep::Controller`,
        // holds no other lock. While it holds the read lock on jobs, a job's record isn't changed or freed.
        let state = unsafe {
            lock(locks);
            let record = find(job).cast_const().cast::<u8>();
            let state = match record.is_null() {
                true => None,
                false => member_number(record, layout::JOB_RECORD, "job_state"),
            };
            unlock(locks);
            state
        };
        // A job that slurmctld doesn't have any more has ended. The bits above the lowest 8 are flags.
        state.is_none_or(|state| state & 0xff > LAST_ACTIVE)
    }
}

/// The last of the states in which a job hasn't ended: JOB_SUSPENDED.
const LAST_ACTIVE: u64 = 2;

/// Returns a number from the daemon's configuration.
fn configured(name: &str) -> Option<u64> {
    let conf = symbols::slurm_conf();
    if conf.is_null() {
        return None;
    }
    // SAFETY: `slurm_conf` is a variable with this layout, which lives as long as the daemon. A number in it is written
    // in one piece, so a concurrent read sees the old or the new number.
    unsafe { member_number(conf, layout::SLURM_CONF, name) }
}

/// Returns the name of the node on which slurmd runs.
pub(super) fn node_name() -> Option<String> {
    let conf = symbols::slurmd_conf();
    if conf.is_null() {
        return None;
    }
    // SAFETY: this is called only in slurmd, whose `conf` points to its configuration. The name is set before plugins
    // are loaded, and doesn't change.
    unsafe {
        let conf = conf.read();
        if conf.is_null() { None } else { member_text(conf, layout::SLURMD_CONF, "node_name") }
    }
}

/// The number of user names that are cached.
const NAMES: usize = 10_000;

/// Returns the name of a user. A look-up may query a server of the site, so names are cached.
pub(super) fn user_name(user: u32) -> Option<String> {
    static KNOWN: Mutex<Option<HashMap<u32, String>>> = Mutex::new(None);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = known().get_or_insert_default().get(&user) {
        return Some(name.clone());
    }
    // Without the lock: slurmctld calls from several threads at once, and a server may answer slowly.
    let name = symbols::user_name()?;
    // SAFETY: the function returns null for an unknown user, else a text that the caller frees. `name` is a copy.
    let name = unsafe {
        let text = name(user);
        let name = read_text(text).map(|name| name.into_owned());
        free(text.cast());
        name
    }?;
    let mut known = known();
    let known = known.get_or_insert_default();
    if known.len() >= NAMES {
        known.clear();
    }
    known.insert(user, name.clone());
    Some(name)
}

/// The release that this file is built for.
fn release() -> Release {
    let known = Release::ALL.get(layout::RELEASE.index());
    known.copied().unwrap_or(Release::V26_05)
}

/// What slurmctld knows during a call of `job_submit` or `job_modify`.
pub(super) struct Known {
    /// The user of the job.
    pub(super) user: u32,
    /// The user who makes the request.
    pub(super) submitter: u32,
}

impl Surroundings for Known {
    fn release(&self) -> Release {
        release()
    }

    fn partitions(&self) -> Result<Vec<Partition>, Mismatch> {
        let list = symbols::part_list();
        let (Some(begin), Some(next), Some(end)) =
            (symbols::list_begin(), symbols::list_next(), symbols::list_end())
        else {
            return Ok(Vec::new());
        };
        if list.is_null() || !layout::HAS_SOURCE {
            return Ok(Vec::new());
        }
        let mut found: Vec<PartitionFor> = Vec::new();
        // SAFETY: slurmctld holds its lock on partitions during the call, so the list and its elements, which are
        // `part_record_t`, don't change. The iterator is freed after its last use.
        unsafe {
            let list = list.read();
            if list.is_null() {
                return Ok(Vec::new());
            }
            let iterator = begin(list);
            loop {
                let element = next(iterator);
                if element.is_null() {
                    break;
                }
                let read = check_partition(element).map(|()| PartitionFor::read(element));
                match read {
                    Ok(partition) => found.push(partition),
                    Err(mismatch) => {
                        end(iterator);
                        return Err(mismatch);
                    }
                }
            }
            end(iterator);
        }
        found.retain(|partition| partition.is_for(self.user, self.submitter));
        Ok(found.into_iter().map(|partition| partition.partition).collect())
    }

    fn user_name(&self, user: u32) -> Option<String> {
        user_name(user)
    }
}
