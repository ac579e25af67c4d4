//! See the sub-modules.
