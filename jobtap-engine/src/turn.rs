//! The present turn: the inputs that the engine processes together, and all the work that they lead to. The agenda is
//! worked off after each input; the effects collect what all of them lead to.
//!
//! Every part works within a turn: it takes the time from it, and leaves in it what is to be done next and what is to
//! go out. A function that only logs or responds takes the [`Effects`] alone.

use super::agenda::Agenda;
use super::api::Effects;
use super::clock::Clock;
use crate::job::Uid;

/// The present turn.
pub(super) struct Turn {
    /// The user who owns the instance. What the manager does by itself, it does in this user's name.
    pub(super) owner: Uid,
    pub(super) clock: Clock,
    /// What is still to be done.
    pub(super) agenda: Agenda,
    /// What the inputs lead to, so far.
    pub(super) effects: Effects,
}
