//! `job purge`: removes inactive jobs, either those with given ids or those beyond a limit.

use jobtap_core::job::Fsd;

use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::services::job_list::GetStats;
use crate::rpc::services::job_manager::{Purge, PurgeId};

/// Options and arguments of `job purge`.
#[derive(Debug, clap::Args)]
pub(super) struct PurgeArgs {
    /// Purge jobs that became inactive longer ago than this
    #[arg(long, value_name = "FSD")]
    age_limit: Option<String>,
    /// Purge the oldest jobs until N inactive jobs are left
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    num_limit: i64,
    /// Purge at most N jobs per request
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true)]
    batch: i64,
    /// Confirm; without this option the jobs are only counted
    #[arg(short = 'f', long)]
    force: bool,
    /// Job ids
    #[arg(value_name = "JOBID")]
    ids: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &PurgeArgs) -> Result<u8, CliError> {
    let purged = if args.ids.is_empty() {
        by_limits(client, args).await?
    } else {
        by_ids(client, args).await?
    };
    let stats = client.call(GetStats {}).await.map_err(failed)?;
    session::print(&summary(purged, stats.all.job_states.inactive, args.force))?;
    Ok(0)
}

async fn by_limits(client: &Client, args: &PurgeArgs) -> Result<u64, CliError> {
    let request = Purge {
        age_limit: age(args.age_limit.as_deref())?,
        num_limit: args.num_limit,
        batch: args.batch,
        force: args.force,
    };
    let mut total = 0;
    // Each request purges one batch, so that the manager isn't busy for long.
    loop {
        let purged = client.call(request.clone()).await.map_err(failed)?.count;
        total += purged;
        if !args.force || purged == 0 {
            return Ok(total);
        }
    }
}

async fn by_ids(client: &Client, args: &PurgeArgs) -> Result<u64, CliError> {
    if args.age_limit.is_some() || args.num_limit != -1 {
        let text = "purge: do not specify job ids together with limits";
        return Err(CliError::failure(text));
    }
    let targets: Vec<Target> =
        args.ids.iter().map(|text| Target::parse(text)).collect::<Result<_, _>>()?;
    let mut total = 0;
    for target in targets {
        let request = PurgeId { id: target.id, force: args.force };
        total += client.call(request).await.map_err(failed)?.count;
    }
    Ok(total)
}

fn failed(error: RpcError) -> CliError {
    CliError::failure(format!("purge: {error}"))
}

/// The age limit in seconds; -1 for no limit.
fn age(text: Option<&str>) -> Result<f64, CliError> {
    let Some(text) = text else {
        return Ok(-1.0);
    };
    let invalid =
        |_| CliError::failure(format!("purge: Invalid argument for option 'age-limit': '{text}'"));
    let age: Fsd = text.parse().map_err(invalid)?;
    // JSON can't express infinity, which means no limit.
    Ok(if age.is_infinite() { -1.0 } else { age.as_secs() })
}

fn summary(purged: u64, left: u64, force: bool) -> String {
    if force {
        format!("purged {purged} inactive jobs, {left} remaining\n")
    } else {
        format!("use --force to purge {purged} of {left} inactive jobs\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_asks_for_force_or_reports_the_result() {
        assert_eq!(summary(2, 5, false), "use --force to purge 2 of 5 inactive jobs\n");
        assert_eq!(summary(2, 3, true), "purged 2 inactive jobs, 3 remaining\n");
    }

    #[test]
    fn age_limit_is_a_flux_standard_duration() {
        assert_eq!(age(None).unwrap(), -1.0);
        assert_eq!(age(Some("1h")).unwrap(), 3600.0);
        assert_eq!(age(Some("infinity")).unwrap(), -1.0);
        let text = "purge: Invalid argument for option 'age-limit': 'x'";
        assert_eq!(age(Some("x")).unwrap_err().text, text);
    }
}
