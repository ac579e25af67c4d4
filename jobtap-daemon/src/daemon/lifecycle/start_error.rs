//! Why a manager was not started, with the place in the configuration that is the reason.

use std::path::PathBuf;

use jobtap_core::allocation::TableError;
use jobtap_core::engine::AllocationLogError;
use serde_json::Value;

use crate::daemon::audit::AuditError;
use crate::daemon::config::http::HttpError;
use crate::daemon::config::settings::SettingsError;
use crate::daemon::config::{Location, Source, place};
use crate::daemon::resources::ResourceError;
use crate::exec::ExecError;
use crate::exec::nodes::NodesError;
use crate::store::StoreError;

/// Why the manager was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The resources are unusable.
    #[error(transparent)]
    Resources(#[from] ResourceError),
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting of the manager itself cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The linked plugins cannot be used together.
    #[error(transparent)]
    Plugins(#[from] crate::linked::LinkedError),
    /// The engine refuses its configuration or a plugin its own.
    #[error(transparent)]
    Engine(#[from] jobtap_core::engine::StartError),
    /// It is not known which allocations an earlier manager has asked for.
    #[error(transparent)]
    Allocations(#[from] AllocationLogError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The executor cannot be started.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The tables `[[allocation]]` can't be used.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The nodes of the instance can't be used.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The socket cannot be created.
    #[error("can't listen at {}: {reason}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// It can't listen for HTTP as the configuration says.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The system refuses a thread or a file descriptor.
    #[error("can't start the manager: {0}")]
    System(#[from] std::io::Error),
    /// One of the errors above, about a value in a file.
    #[error("{error} ({location})")]
    At {
        /// What is wrong.
        error: Box<StartError>,
        /// Where the value is.
        location: Location,
    },
    /// A thread panicked while jobs were restored.
    #[error("the engine failed while starting: {0}")]
    Broken(String),
}

impl StartError {
    /// Adds the file and the line of the value that the error is about, if the value comes from a file.
    pub(super) fn at(self, source: &Source, config: &Value) -> Self {
        let place = match &self {
            Self::Settings(error) => error.place(config),
            Self::Resources(_) | Self::Engine(_) | Self::Tables(_) | Self::Http(_) => {
                place::locate(&self.to_string(), config)
            }
            _ => return self,
        };
        match source.locate(&place) {
            Some(location) => Self::At { error: Box::new(self), location },
            None => self,
        }
    }
}
