//! The manager as a process: the engine on its thread, and around it the store, the executor and the
//! socket.
//!
//! A folder or file imports only from those below it in this table.
//!
//! | folder or file | what it does |
//! |---|---|
//! | `lifecycle/` | starts, restarts and ends the manager; its state directory, and the jobs of an earlier run |
//! | `http/` | the same services over HTTP, for tools and browsers |
//! | `server/` | connections, and the limits within which clients use them |
//! | `plugin_requests` | serves the requests that plugins send to services |
//! | `stages` | single stages of processing a job, for `jobtap bench` |
//! | `services/` | dispatches requests to their handlers |
//! | `request_parts` | the parts of the manager that handlers work with |
//! | `config/` | the configuration, and how a new one replaces it |
//! | `writes/` | makes a turn of the engine durable, and then does what it asks for |
//! | `execution/` | connects the engine to the executor of jobs |
//! | `rights/`, `audit` | what users may do, and the log of what they have changed |
//! | `watchers/` | who hears of events that are durable |
//! | `engine/` | the thread that owns the engine, and the order in which it takes messages |
//! | `plugin_threads/` | the work of plugins on threads |
//! | `node_commands` | the commands that clients run on nodes |
//! | `added_services` | the services that programs have added |
//! | `records`, `resources`, `attributes`, `user_names`, `unix_socket`, `log`, `failure` | each a part of its own |
//!
//! One order keeps every promise: nothing is acknowledged before it is durable, and nothing that was
//! acknowledged is lost.

mod added_services;
pub mod attributes;
mod audit;
pub mod config;
mod engine;
mod execution;
mod failure;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod lifecycle;
pub mod log;
mod node_commands;
mod plugin_requests;
mod plugin_threads;
mod records;
mod request_parts;
pub mod resources;
mod rights;
pub(crate) mod server;
mod services;
pub mod stages;
mod unix_socket;
mod user_names;
mod watchers;
mod writes;

pub use crate::clock::now;
pub use audit::AuditError;
pub use audit::KEY as AUDIT_LOG;
pub use failure::Failure;
pub use lifecycle::{Daemon, Options, StartError, statedir, stepped};
pub use writes::push_ops as store_ops;
