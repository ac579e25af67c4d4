//! The offsets of the members of Slurm's structures, which `build/` generates.

use crate::installed::{RELEASES, Release, Version};
use crate::structure::Kind as Stored;

/// A member of a structure in C.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The name.
    pub(super) name: &'static str,
    /// The offset from the beginning of the structure, in bytes.
    pub(super) offset: usize,
    /// The type.
    pub(super) kind: Kind,
}

/// The type of a member in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `char *`
    Text,
    /// `char **`
    Texts,
    /// `time_t`
    Time,
    /// An unsigned number or a `bool` of this many bytes.
    Number(u8),
    /// Another pointer, or anything else.
    Other,
}

impl Kind {
    /// Returns the type as the adapter sees it; `None` if the adapter doesn't read this type.
    pub(super) fn stored(self) -> Option<Stored> {
        Some(match self {
            Kind::Text => Stored::Text,
            Kind::Texts => Stored::Texts,
            Kind::Time => Stored::Time,
            Kind::Number(bytes) => Stored::Number(bytes),
            Kind::Other => return None,
        })
    }
}

/// Finds a member by its name; `None` if this version of Slurm doesn't have it.
pub(super) fn find(structure: &'static [Member], name: &str) -> Option<Member> {
    structure.iter().find(|member| member.name == name).copied()
}

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
