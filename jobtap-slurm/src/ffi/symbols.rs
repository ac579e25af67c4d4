//! Functions and variables of the daemon, looked up by their names when they are used first.
//!
//! They are not linked: one file is loaded by slurmctld and by slurmd, which don't have the same, and a
//! symbol that is missing would keep the whole file from being loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `RTLD_DEFAULT`: the program and all that it has loaded globally.
const EVERYWHERE: *mut c_void = std::ptr::null_mut();

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: `name` ends with a byte 0, and dlsym only reads it.
    unsafe { dlsym(EVERYWHERE, name.as_ptr()) }
}

/// A symbol's address, which is looked up once. A number, since a pointer can't be shared between threads.
macro_rules! symbol {
    ($name:literal) => {{
        static ADDRESS: OnceLock<usize> = OnceLock::new();
        *ADDRESS.get_or_init(|| find($name) as usize)
    }};
}

/// Declares functions of the daemon: each is `None` where the daemon doesn't have it.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: $type:ty;)*) => { $(
        $(#[$doc])*
        pub(super) fn $name() -> Option<$type> {
            let address = symbol!($symbol);
            if address == 0 {
                return None;
            }
            // SAFETY: the address is that of the function of this name, whose type in the versions of Slurm that
            // `build/version.rs` knows is this one.
            Some(unsafe { std::mem::transmute::<usize, $type>(address) })
        }
    )* };
}

/// `slurmctld_lock_t`: 0 is no lock, 1 one for reading.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Locks {
    pub(super) conf: c_int,
    pub(super) job: c_int,
    pub(super) node: c_int,
    pub(super) part: c_int,
    pub(super) fed: c_int,
}

type Log = unsafe extern "C" fn(*const c_char, ...);

functions! {
    /// Writes an error to the daemon's log, by a format.
    log_error = c"slurm_error": Log;
    /// Writes a line to the daemon's log, by a format.
    log_info = c"slurm_info": Log;
    /// Writes a line to the daemon's log at its level `debug`, by a format.
    log_debug = c"slurm_debug": Log;
    /// Allocates an array of zeros: count, size, whether it is cleared, whether it may fail, and the caller for
    /// messages.
    xcalloc = c"slurm_xcalloc":
        unsafe extern "C" fn(usize, usize, bool, bool, *const c_char, c_int, *const c_char) -> *mut c_void;
    /// Frees what a pointer points to, and sets it to null.
    xfree = c"slurm_xfree": unsafe extern "C" fn(*mut *mut c_void);
    /// The path of a configuration file of this name, allocated.
    extra_conf_path = c"slurm_get_extra_conf_path": unsafe extern "C" fn(*const c_char) -> *mut c_char;
    /// The name of a user, allocated; null if there is no such user.
    user_name = c"uid_to_string_or_null": unsafe extern "C" fn(u32) -> *mut c_char;
    /// An iterator over a list, allocated.
    list_begin = c"slurm_list_iterator_create": unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    /// The next element of a list; null at its end.
    list_next = c"slurm_list_next": unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    /// Frees an iterator.
    list_end = c"slurm_list_iterator_destroy": unsafe extern "C" fn(*mut c_void);
    /// Takes slurmctld's locks at these levels.
    lock = c"lock_slurmctld": unsafe extern "C" fn(Locks);
    /// Gives them back.
    unlock = c"unlock_slurmctld": unsafe extern "C" fn(Locks);
    /// A job of slurmctld's; null for an unknown one.
    find_job = c"find_job_record": unsafe extern "C" fn(u32) -> *mut c_void;
    /// Tells slurmctld the end of a prolog: a wait status, the job, and whether it took too long.
    prolog_ended = c"prep_prolog_slurmctld_callback": unsafe extern "C" fn(c_int, u32, bool);
    /// Tells slurmctld the end of an epilog.
    epilog_ended = c"prep_epilog_slurmctld_callback": unsafe extern "C" fn(c_int, u32, bool);
}

/// The daemon's `slurm_conf`; null in a program without one.
pub(super) fn slurm_conf() -> *const u8 {
    symbol!(c"slurm_conf") as *const u8
}

/// Where slurmctld has the list of its partitions; null in slurmd.
pub(super) fn part_list() -> *const *mut c_void {
    symbol!(c"part_list") as *const *mut c_void
}

/// Where slurmd has its own configuration; null in slurmctld.
pub(super) fn slurmd_conf() -> *const *const u8 {
    symbol!(c"conf") as *const *const u8
}
