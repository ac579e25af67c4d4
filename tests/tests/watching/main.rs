//! What users see of the manager, of their jobs and of long work at a terminal, and what jobs have used.
#![allow(clippy::unwrap_used)]

mod accounting;
mod progress;
mod top;
