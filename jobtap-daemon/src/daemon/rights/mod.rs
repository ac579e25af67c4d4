//! What users may do: `access` says who may connect and with which rights, `privacy` whose jobs they may see.

pub(super) mod access;
pub(super) mod privacy;
