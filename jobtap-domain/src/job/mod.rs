//! The values that a job consists of: ids, states, urgencies, times and so on. All of them are plain data.

mod duration;
mod emoji;
mod flags;
mod generator;
mod id;
mod job_flag;
mod merge;
mod number_or_text;
mod result;
mod signal;
mod state;
mod state_set;
mod taskmap;
mod time;
mod urgency;
mod user;
mod wait_status;

pub use duration::{Fsd, FsdError};
pub use flags::{Flags, FlagsError};
pub use generator::{IdGenerator, IdsExhausted};
pub use id::{Encoding, JobId, JobIdError, UnknownEncoding};
pub use job_flag::JobFlag;
pub use merge::merge_annotations;
pub use result::{JobResult, UnknownResult};
pub use signal::{Reach, Signal, SignalError, UnknownSignal};
pub use state::{State, UnknownState};
pub use state_set::{StateSet, UnknownStatus};
pub use taskmap::{TaskMap, TaskMapError};
pub use time::Timestamp;
pub use urgency::{PRIORITY_MAX, PRIORITY_MIN, Urgency, UrgencyError};
pub use user::{InvalidUid, Uid};
pub use wait_status::{WaitStatus, signal_text};
