//! The commands that combine sets without a manager: lists of hosts (RFC 29) and sets of resources (RFC 20).

pub(super) mod hostlist;
pub(super) mod rset;
