//! What several commands share: the connection and the streams, ids, times, formats of rows, options, usage
//! errors and progress.

pub(super) mod array_end;
pub(super) mod arrays;
pub(super) mod escapes;
pub(super) mod format;
pub(super) mod hosts;
pub(super) mod ids;
pub(super) mod indexes;
pub(super) mod json;
pub(super) mod message;
pub(super) mod optional_values;
pub(super) mod progress;
pub(super) mod reach;
pub(super) mod resources;
pub(super) mod session;
pub(super) mod usage;
pub(super) mod when;
pub(super) mod words;
pub(super) mod work;
