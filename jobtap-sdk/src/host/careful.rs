//! Values of plugins that are dropped where no plugin is being called.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value of a plugin, such as the captures of a deferred closure. A host drops it when it is no longer needed,
/// and a panic in its `Drop` would end one of the host's threads. So the panic is caught; the panic hook has
/// reported it.
pub(crate) struct Careful<T>(Option<T>);

impl<T> Careful<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    /// Returns the value, which is always there, since taking it consumes `self`.
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
