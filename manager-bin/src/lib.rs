//! Manager.
