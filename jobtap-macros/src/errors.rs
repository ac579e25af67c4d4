//! Collects the mistakes of an author, so that one run reports all of them.
//!
//! Each step of a macro reports into a sink and goes on with what it could read. A step that must know
//! whether its own part was free of mistakes reports into a child of its caller's sink, and asks that
//! child.

use std::cell::{Cell, RefCell};

use proc_macro2::TokenStream;

/// All mistakes of one expansion, in the order in which they were found.
#[derive(Default)]
pub(crate) struct ErrorStore {
    errors: RefCell<Vec<syn::Error>>,
}

impl ErrorStore {
    /// Returns the sink of the whole expansion.
    pub(crate) fn sink(&self) -> ErrorSink<'_> {
        ErrorSink { store: self, parent: None, failed: Cell::new(false) }
    }

    /// Returns the errors as the compiler reads them.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.errors.borrow().iter().map(syn::Error::to_compile_error).collect()
    }
}

/// A way into an [`ErrorStore`], for one step of the macro.
pub(crate) struct ErrorSink<'a> {
    store: &'a ErrorStore,
    parent: Option<&'a ErrorSink<'a>>,
    failed: Cell<bool>,
}

impl ErrorSink<'_> {
    /// Reports a mistake.
    pub(crate) fn push(&self, error: syn::Error) {
        self.store.errors.borrow_mut().push(error);
        let mut sink = Some(self);
        while let Some(failed) = sink {
            failed.failed.set(true);
            sink = failed.parent;
        }
    }

    /// Reports any number of mistakes.
    pub(crate) fn extend(&self, errors: impl IntoIterator<Item = syn::Error>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Returns the value, or reports the error.
    pub(crate) fn ok<T>(&self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Returns a sink for a part of this step.
    pub(crate) fn child(&self) -> ErrorSink<'_> {
        ErrorSink { store: self.store, parent: Some(self), failed: Cell::new(false) }
    }

    /// Returns whether something was reported to this sink or to a child of it.
    pub(crate) fn has_errors(&self) -> bool {
        self.failed.get()
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;

    fn error(text: &str) -> syn::Error {
        syn::Error::new(Span::call_site(), text)
    }

    #[test]
    fn a_mistake_fails_its_step_and_those_around_it() {
        let store = ErrorStore::default();
        let whole = store.sink();
        let (one, other) = (whole.child(), whole.child());
        let part = one.child();
        part.push(error("first"));
        assert!(part.has_errors() && one.has_errors() && whole.has_errors());
        assert!(!other.has_errors());
    }

    #[test]
    fn errors_keep_the_order_in_which_they_were_found() {
        let store = ErrorStore::default();
        let sink = store.sink();
        sink.push(error("first"));
        assert_eq!(sink.child().ok(Err::<(), _>(error("second"))), None);
        assert_eq!(sink.ok(Ok(3)), Some(3));
        sink.extend([error("third")]);
        let text = store.to_compile_errors().to_string();
        let at = |word: &str| text.find(word);
        assert!(at("first") < at("second") && at("second") < at("third"), "{text}");
        assert!(at("first").is_some());
    }
}
