//! The finished jobs that the manager lists, one by one.

use jiff::tz::TimeZone;

use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::CliError;
use crate::cli::common::when;
use crate::cli::jobs::row::{DisplayContext, JobRow};
use crate::client::Client;
use crate::client::listing::{ListError, list_jobs};
use crate::rpc::services::job_list::List;
use crate::users::Users;

pub(in crate::cli) fn display() -> DisplayContext {
    DisplayContext {
        now: when::now(),
        zone: TimeZone::system(),
        ids: IdStyle::current(),
        users: Users::system(),
    }
}

/// Hands each job that the manager lists to `take`.
pub(super) fn each_job(
    request: &List,
    display: &DisplayContext,
    mut take: impl FnMut(&JobRow<'_>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let taken = |job| {
        let row = JobRow::from_json(job, display).map_err(CliError::failure)?;
        take(&row)
    };
    let socket = Client::socket()?;
    list_jobs(&socket, request, taken).map_err(|error| match error {
        ListError::Stopped(error) => error,
        error => CliError::failure(error),
    })
}
