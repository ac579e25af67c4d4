//! Work that a host runs off its own thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future that the host runs for a plugin.
pub struct Task(pub Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}
