//! Deadline.
