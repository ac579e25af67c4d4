//! The error numbers of refusals, as Flux sends them: those of Linux.

/// The client may not do this.
pub const EPERM: i32 = 1;
/// There is no such job, node or plugin.
pub const ENOENT: i32 = 2;
/// Something failed that is no fault of the client.
pub const EIO: i32 = 5;
/// There is no job to wait for.
pub const ECHILD: i32 = 10;
/// There is no room for it now; later there will be.
pub const EAGAIN: i32 = 11;
/// It is in use.
pub const EBUSY: i32 = 16;
/// It exists already.
pub const EEXIST: i32 = 17;
/// The request has an invalid value.
pub const EINVAL: i32 = 22;
/// There is no such service, or no longer.
pub const ENOSYS: i32 = 38;
/// No resources of the instance could ever hold the job.
pub const EOVERFLOW: i32 = 75;
/// The request cannot be read.
pub const EPROTO: i32 = 71;
