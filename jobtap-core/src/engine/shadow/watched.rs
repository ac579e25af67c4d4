//! What a dispatch knows of the shadows that it concerns. It lies below the dispatch, which carries it.

use super::compare::LiveAnswer;
use crate::engine::dispatch::answer::Answer;
use crate::host::{Handlers, PluginKey};

/// The shadows of one dispatch, and what the live plugins have answered so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) shadows: Vec<Watched>,
    pub(super) live: Vec<LiveAnswer>,
}

/// A shadow in a dispatch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) key: PluginKey,
    pub(super) handlers: Handlers,
    /// It is called before the live handler of this index.
    pub(super) place: usize,
    /// The live plugin of its name, if it is called in this dispatch.
    pub(super) own: Option<PluginKey>,
    pub(super) answer: Option<Answer>,
}
