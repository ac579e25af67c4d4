//! A job as plugins see it ([`Job`]) and the values that it consists of: ids, states, urgencies,
//! times and so on. All of them are plain data, without I/O and without a clock.

mod annotations;
mod asked;
mod duration;
mod emoji;
mod flags;
mod generator;
mod id;
mod merge;
mod number_or_text;
mod result;
mod signal;
mod state;
mod state_set;
mod taskmap;
mod time;
mod times;
mod unread;
mod urgency;
mod user;
mod view;
mod wait_status;

pub(crate) use annotations::Annotations;
pub(crate) use asked::Change;
pub use duration::{Fsd, FsdError};
pub use flags::{Flags, FlagsError};
pub use generator::{IdGenerator, IdsExhausted};
pub use id::{Encoding, JobId, JobIdError, UnknownEncoding};
pub use merge::merge_annotations;
pub use result::{JobResult, UnknownResult};
pub use signal::{Signal, SignalError, UnknownSignal};
pub use state::{State, UnknownState};
pub use state_set::{StateSet, UnknownStatus};
pub use taskmap::{TaskMap, TaskMapError};
pub use time::Timestamp;
pub(crate) use times::{Moment, Times};
pub(crate) use unread::{Blank, Unread};
pub use urgency::{PRIORITY_MAX, PRIORITY_MIN, Urgency, UrgencyError};
pub use user::{InvalidUid, Uid};
pub use view::{Job, JobInfo};
pub(crate) use view::{KnownDependency, LoggedEvents};
pub use wait_status::{WaitStatus, signal_text};
