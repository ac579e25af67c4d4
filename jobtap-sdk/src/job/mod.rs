//! A job as plugins see it ([`Job`]), and the values that it consists of: ids, states, urgencies, times and so on.

pub(crate) mod annotations;
pub(crate) mod overlay;
pub(crate) mod times;
pub(crate) mod unread;
pub(crate) mod view;

pub use jobtap_domain::job::*;

pub(crate) use annotations::Annotations;
pub(crate) use times::Times;
pub(crate) use unread::{Blank, Unread};
pub use view::{Job, JobInfo};
pub(crate) use view::{Kept, KnownDependency, LoggedEvents};
