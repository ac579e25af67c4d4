//! slurmctld or slurmd, by its functions.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jobtap_core::plugin::Level;
use jobtap_core::slurm::{NO_VAL16, Partition};

use super::layout;
use super::memory::{free, read_text};
use super::structures::{PartitionFor, member_number, member_text};
use super::symbols;
use crate::daemon::{Daemon, Part, PrepEnd};
use crate::job_submit::Surroundings;
use crate::prep::FAILED;

/// The daemon that has loaded this file.
#[derive(Debug)]
pub(super) struct Loader;

/// What slurmctld has given for the ends of prologs and epilogs, as addresses.
static PROLOG_ENDED: AtomicUsize = AtomicUsize::new(0);
static EPILOG_ENDED: AtomicUsize = AtomicUsize::new(0);

type Ended = unsafe extern "C" fn(c_int, u32, bool);

/// Takes over slurmctld's callbacks.
///
/// # Safety
/// `callbacks` is null or points to slurmctld's `prep_callbacks_t`.
pub(super) unsafe fn register_callbacks(callbacks: *const c_void) {
    for (name, slot) in [("prolog_slurmctld", &PROLOG_ENDED), ("epilog_slurmctld", &EPILOG_ENDED)] {
        if let Some(member) = layout::find(layout::PREP_CALLBACKS, name)
            && !callbacks.is_null()
        {
            // SAFETY: the member is a pointer to a function, of which only the address is read.
            let address = unsafe { callbacks.byte_add(member.offset).cast::<usize>().read() };
            slot.store(address, Ordering::Relaxed);
        }
    }
}

/// The callback for the end of a prolog or epilog. slurmctld gives its callbacks at its start only: to a plugin that
/// it loads later, for a changed `PrEpPlugins`, it gives none, and then they are looked up.
fn ended(part: Part) -> Option<Ended> {
    let (slot, known) = match part {
        Part::Prolog => (&PROLOG_ENDED, symbols::prolog_ended as fn() -> Option<Ended>),
        Part::Epilog => (&EPILOG_ENDED, symbols::epilog_ended as fn() -> Option<Ended>),
    };
    match slot.load(Ordering::Relaxed) {
        0 => known(),
        // SAFETY: slurmctld has given this address as one of a function of this type.
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
            // SAFETY: the format takes one text, which ends with a byte 0. Slurm's log is for any thread.
            unsafe { log(c"%s".as_ptr(), text.as_ptr()) };
        }
    }

    fn config_file(&self, name: &str) -> PathBuf {
        let found =
            symbols::extra_conf_path().zip(CString::new(name).ok()).and_then(|(path, name)| {
                // SAFETY: it reads the name, and allocates the path that it returns.
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

    fn prep_timeout(&self) -> Option<Duration> {
        let seconds = configured("prolog_epilog_timeout")?;
        (seconds != u64::from(NO_VAL16)).then(|| Duration::from_secs(seconds))
    }

    fn prepare_thread(&self) {
        // SAFETY: `signals` is filled before it is read, and only the mask of this thread is changed.
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
        // slurmctld takes a timeout for a failure only of a process that was killed.
        let (status, timed_out) = match end {
            PrepEnd::Done => (0, false),
            PrepEnd::Failed(_) => (FAILED, false),
            PrepEnd::TimedOut => (libc::SIGKILL, true),
            // As of a script that slurmctld has killed for that.
            PrepEnd::Cancelled => (libc::SIGKILL, false),
        };
        // SAFETY: slurmctld's own function, of this type. It takes slurmctld's locks, and this thread, that of
        // `prep::Controller`, holds no lock.
        unsafe { ended(status, job, timed_out) };
    }

    fn is_over(&self, job: u32) -> bool {
        let (Some(lock), Some(unlock), Some(find)) =
            (symbols::lock(), symbols::unlock(), symbols::find_job())
        else {
            return false;
        };
        let locks = symbols::Locks { conf: 0, job: 1, node: 0, part: 0, fed: 0 };
        // SAFETY: slurmctld's own functions, of these types. This thread, that of `prep::Controller`, holds no lock.
        // A job's record doesn't change and isn't freed while the lock for reading jobs is held.
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
        // A job that is gone is over. Above the lowest 8 bits are flags.
        state.is_none_or(|state| state & 0xff > LAST_ACTIVE)
    }
}

/// Jobs of a state up to this one have not ended: JOB_SUSPENDED.
const LAST_ACTIVE: u64 = 2;

/// A number of the daemon's configuration.
fn configured(name: &str) -> Option<u64> {
    let conf = symbols::slurm_conf();
    if conf.is_null() {
        return None;
    }
    // SAFETY: `slurm_conf` is a variable of this layout, for as long as the daemon lives. A number of it is written
    // at once, so that a read beside it sees the old or the new one.
    unsafe { member_number(conf, layout::SLURM_CONF, name) }
}

/// The name of the node that slurmd is.
pub(super) fn node_name() -> Option<String> {
    let conf = symbols::slurmd_conf();
    if conf.is_null() {
        return None;
    }
    // SAFETY: in slurmd, whose hooks alone ask for it, `conf` points to its configuration. The name is set before
    // plugins are loaded, and doesn't change.
    unsafe {
        let conf = conf.read();
        if conf.is_null() { None } else { member_text(conf, layout::SLURMD_CONF, "node_name") }
    }
}

/// How many names of users are remembered.
const NAMES: usize = 10_000;

/// The name of a user. A look-up may ask a server of the site's, so names are remembered.
fn user_name(user: u32) -> Option<String> {
    static KNOWN: Mutex<Option<HashMap<u32, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(name) = known.get(&user) {
        return Some(name.clone());
    }
    let name = symbols::user_name()?;
    // SAFETY: it allocates the text that it returns, which is null for an unknown user.
    let name = unsafe {
        let text = name(user);
        let name = read_text(text).map(|name| name.into_owned());
        free(text.cast());
        name
    }?;
    if known.len() >= NAMES {
        known.clear();
    }
    known.insert(user, name.clone());
    Some(name)
}

/// What slurmctld knows during a call of `job_submit` or `job_modify`.
pub(super) struct Known {
    /// The user of the job.
    pub(super) user: u32,
    /// The user who makes the request.
    pub(super) submitter: u32,
}

impl Surroundings for Known {
    fn partitions(&self) -> Vec<Partition> {
        let list = symbols::part_list();
        let (Some(begin), Some(next), Some(end)) =
            (symbols::list_begin(), symbols::list_next(), symbols::list_end())
        else {
            return Vec::new();
        };
        if list.is_null() {
            return Vec::new();
        }
        let mut found: Vec<PartitionFor> = Vec::new();
        // SAFETY: slurmctld holds its lock on partitions during the call, so that the list and what is in it doesn't
        // change; its elements are `part_record_t`.
        unsafe {
            let list = list.read();
            if list.is_null() {
                return Vec::new();
            }
            let iterator = begin(list);
            loop {
                let element = next(iterator);
                if element.is_null() {
                    break;
                }
                found.push(PartitionFor::read(element));
            }
            end(iterator);
        }
        found.retain(|partition| partition.is_for(self.user, self.submitter));
        found.into_iter().map(|partition| partition.partition).collect()
    }

    fn user_name(&self, user: u32) -> Option<String> {
        user_name(user)
    }
}
