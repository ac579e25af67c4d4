//! What a dispatch knows about the shadows that it concerns. This is a layer below dispatches, which carry it.

use super::compare::LiveTranscript;
use crate::host::{Handlers, PluginKey};
use crate::transcript::Transcript;

/// The calls of shadows in one dispatch, and what the live plugins have answered so far.
#[derive(Debug, Default)]
pub(crate) struct ShadowCalls {
    pub(crate) shadows: Vec<ShadowCall>,
    pub(crate) live: Vec<LiveTranscript>,
}

/// What one shadow is called for in a dispatch.
#[derive(Debug)]
pub(crate) struct ShadowCall {
    pub(crate) key: PluginKey,
    pub(crate) handlers: Handlers,
    /// The index of the live handler before which the shadow is called.
    pub(crate) place: usize,
    /// The live plugin of its name, if it is called in this dispatch.
    pub(crate) own: Option<PluginKey>,
    pub(crate) transcript: Option<Transcript>,
}
