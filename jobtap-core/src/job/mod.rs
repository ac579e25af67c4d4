//! A job as plugins see it ([`Job`]), and the values that it consists of: ids, states, urgencies, times and so on.

mod annotations;
mod overlay;
mod times;
mod unread;
mod view;

pub use jobtap_domain::job::*;

pub(crate) use annotations::Annotations;
pub(crate) use overlay::Change;
pub(crate) use times::{Moment, Times};
pub(crate) use unread::{Blank, Unread};
pub use view::{Job, JobInfo};
pub(crate) use view::{KnownDependency, LoggedEvents};
