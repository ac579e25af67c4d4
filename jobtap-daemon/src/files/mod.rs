//! Safe operations on files and directories: through the handle of a directory, never through a symbolic
//! link in it, and only on files that this program created.
//!
//! The handles come from `rustix`, on which the manager depends anyway. Each operation concerns one name in
//! one directory, so a crate that resolves whole paths in a sandbox would have no advantage.

mod dir;
pub mod input;
mod kept;
mod lock;
mod marker;
mod removal;
mod temporary;
mod whole;

pub use dir::Dir;
pub(crate) use dir::Kind;
pub(crate) use kept::KeptDir;
pub(crate) use lock::{LOCK, Lock, LockError};
pub(crate) use marker::{Found, MARKER, Purpose, read as read_marker, write as write_marker};
pub(crate) use removal::{empty, move_aside};
pub(crate) use temporary::remove_leftover_at;
pub use temporary::{TemporaryDir, TemporaryDirError, remove_leftovers};
pub(crate) use whole::place_in;
pub use whole::{
    Access, ClosedFile, WholeFile, check_target, create_new, write_below, write_whole,
};
