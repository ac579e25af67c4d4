//! Values of plugins that are dropped where no plugin is being called.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value of a plugin, such as what a closure for later has captured. A host drops it when it is not needed any
/// more, and a panic in its `Drop` would end a thread of the host's. It is caught; the panic hook has told it.
pub(crate) struct Careful<T>(Option<T>);

impl<T> Careful<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    /// The value; it is there until it was taken.
    pub(crate) fn take(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for Careful<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
        }
    }
}
