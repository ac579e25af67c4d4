//! What a dispatch knows about the shadows that it concerns. This is a layer below dispatches, which carry it.

use super::compare::LiveTranscript;
use crate::host::{Handlers, PluginKey};
use crate::transcript::Transcript;

/// The shadows of one dispatch, and what the live plugins have answered so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) shadows: Vec<Watched>,
    pub(crate) live: Vec<LiveTranscript>,
}

/// A shadow in a dispatch.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) key: PluginKey,
    pub(crate) handlers: Handlers,
    /// The index of the live handler before which the shadow is called.
    pub(crate) place: usize,
    /// The live plugin of its name, if it is called in this dispatch.
    pub(crate) own: Option<PluginKey>,
    pub(crate) transcript: Option<Transcript>,
}
