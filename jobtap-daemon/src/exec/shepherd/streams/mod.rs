//! What the tasks of a job read and write: the files and pipes of their standard streams, their terminals, and the log
//! that the manager keeps of their output.

pub(super) mod capture;
pub(super) mod ends;
pub(super) mod fifo;
pub(super) mod input;
pub(super) mod lines;
pub(super) mod options;
pub(super) mod output;
mod output_file;
mod pack;
pub(super) mod pty;
pub(super) mod task_pipe;
pub(super) mod taskio;
