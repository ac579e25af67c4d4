//! One callback, with the type of its topic.

use std::marker::PhantomData;

use crate::host::{Args, Detail, Failure};
use crate::topic::TopicSet;

/// [`Args`] of a call at topic `T`, from which the parameters of a handler are taken.
pub struct Call<'a, T: TopicSet> {
    pub(crate) args: &'a Args<'a>,
    topic: PhantomData<T>,
}

impl<'a, T: TopicSet> Call<'a, T> {
    /// Reads `args` as a call at topic `T`.
    pub fn new(args: &'a Args<'a>) -> Self {
        Self { args, topic: PhantomData }
    }

    /// The payload of an author's own topic; called by the code that `#[topic]` generates.
    #[doc(hidden)]
    pub fn payload<O: 'static>(&self) -> Result<&'a O, Failure> {
        let payload = match self.args.detail {
            Detail::Own(payload) => payload.downcast_ref(),
            _ => None,
        };
        payload.ok_or(Failure::Input("two topics of one name have different payloads"))
    }
}

// A derive would require `T: Clone`.
impl<T: TopicSet> Clone for Call<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: TopicSet> Copy for Call<'_, T> {}
