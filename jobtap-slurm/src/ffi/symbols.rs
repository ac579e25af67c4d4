//! Functions and variables of the daemon, looked up by their names at their first use.
//!
//! They are not linked: slurmctld and slurmd, which have different symbols, load the same file, and a
//! missing symbol would prevent the file from being loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `RTLD_DEFAULT`: searches the program and all libraries that it has loaded globally.
const EVERYWHERE: *mut c_void = std::ptr::null_mut();

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is NUL-terminated, and dlsym only reads it.
    unsafe { dlsym(EVERYWHERE, name.as_ptr()) }
}

/// Returns a symbol's address, which is looked up once. It is stored as a number, since a static pointer isn't `Sync`.
macro_rules! symbol {
    ($name:literal) => {{
        static ADDRESS: OnceLock<usize> = OnceLock::new();
        *ADDRESS.get_or_init(|| find($name) as usize)
    }};
}

/// Declares functions of the daemon: each is `None` if the daemon doesn't have it.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: $type:ty;)*) => { $(
        $(#[$doc])*
        pub(super) fn $name() -> Option<$type> {
            let address = symbol!($symbol);
            if address == 0 {
                return None;
            }
            // SAFETY: the address isn't 0, so it belongs to the function with this name, which has this type in the
            // releases of Slurm that `installed/release.rs` lists.
            Some(unsafe { std::mem::transmute::<usize, $type>(address) })
        }
    )* };
}

/// `slurmctld_lock_t`: 0 means no lock, 1 a read lock.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Locks {
    pub(super) conf: c_int,
    pub(super) job: c_int,
    pub(super) node: c_int,
    pub(super) part: c_int,
    pub(super) fed: c_int,
    /// From 26.05 on. On others it is beyond the end of what slurmctld reads.
    pub(super) select_node: c_int,
}

type Log = unsafe extern "C" fn(*const c_char, ...);

functions! {
    /// Writes an error to the daemon's log, with a printf format.
    log_error = c"slurm_error": Log;
    /// Writes a line to the daemon's log, with a printf format.
    log_info = c"slurm_info": Log;
    /// Writes a line to the daemon's log at the level `debug`, with a printf format.
    log_debug = c"slurm_debug": Log;
    /// Allocates an array. The parameters are count, size, whether it is zeroed, whether it may fail, and the caller's
    /// location for messages.
    xcalloc = c"slurm_xcalloc":
        unsafe extern "C" fn(usize, usize, bool, bool, *const c_char, c_int, *const c_char) -> *mut c_void;
    /// Frees the memory that a pointer points to, and sets the pointer to null.
    xfree = c"slurm_xfree": unsafe extern "C" fn(*mut *mut c_void);
    /// Returns the path of a configuration file with this name, which the caller frees.
    extra_conf_path = c"slurm_get_extra_conf_path": unsafe extern "C" fn(*const c_char) -> *mut c_char;
    /// Returns the name of a user, which the caller frees; null if there is no such user.
    user_name = c"uid_to_string_or_null": unsafe extern "C" fn(u32) -> *mut c_char;
    /// Creates an iterator over a list.
    list_begin = c"slurm_list_iterator_create": unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    /// Returns the next element of a list; null at its end.
    list_next = c"slurm_list_next": unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    /// Frees an iterator.
    list_end = c"slurm_list_iterator_destroy": unsafe extern "C" fn(*mut c_void);
    /// Takes slurmctld's locks at these levels.
    lock = c"lock_slurmctld": unsafe extern "C" fn(Locks);
    /// Releases slurmctld's locks at these levels.
    unlock = c"unlock_slurmctld": unsafe extern "C" fn(Locks);
    /// Finds a job of slurmctld's; null if there is none with this id.
    find_job = c"find_job_record": unsafe extern "C" fn(u32) -> *mut c_void;
    /// Reports the end of a prolog to slurmctld. The parameters are the wait status, the job, and whether it timed out.
    prolog_ended = c"prep_prolog_slurmctld_callback": unsafe extern "C" fn(c_int, u32, bool);
    /// Reports the end of an epilog to slurmctld, with the same parameters.
    epilog_ended = c"prep_epilog_slurmctld_callback": unsafe extern "C" fn(c_int, u32, bool);
}

/// Returns the address of the daemon's `slurm_conf`; null in a program that has none.
pub(super) fn slurm_conf() -> *const u8 {
    symbol!(c"slurm_conf") as *const u8
}

/// Returns the address of slurmctld's pointer to its list of partitions; null in slurmd.
pub(super) fn part_list() -> *const *mut c_void {
    symbol!(c"part_list") as *const *mut c_void
}

/// Returns the address of slurmd's pointer to its own configuration; null in slurmctld.
pub(super) fn slurmd_conf() -> *const *const u8 {
    symbol!(c"conf") as *const *const u8
}
