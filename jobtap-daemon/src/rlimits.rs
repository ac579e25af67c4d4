//! The resource limits of processes by name, for the submission of jobs and for their tasks.

use rustix::process::Resource;

/// The names of the limits in the job shell option `rlimit`: in lower case and without `RLIMIT_`. Those that a job
/// inherits from its submitter come first, in Flux's order.
pub const RESOURCES: [(&str, Resource); 15] = [
    ("cpu", Resource::Cpu),
    ("fsize", Resource::Fsize),
    ("data", Resource::Data),
    ("stack", Resource::Stack),
    ("core", Resource::Core),
    ("nofile", Resource::Nofile),
    ("as", Resource::As),
    ("rss", Resource::Rss),
    ("nproc", Resource::Nproc),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
];
