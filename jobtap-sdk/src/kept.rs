//! What the engine keeps of jobs and gives to schedulers: the insides of [`Job`](crate::job::Job) and of
//! [`Turn`](crate::sched::Turn), which authors never see.

pub use crate::job::annotations::Annotations;
pub use crate::job::overlay::Change;
pub use crate::job::times::{Moment, Times};
pub use crate::job::unread::{Blank, Unread};
pub use crate::job::view::{Kept, KnownDependency, LoggedEvents};
pub use crate::sched::queue::Place;
pub use crate::sched::turn::TurnParts;
