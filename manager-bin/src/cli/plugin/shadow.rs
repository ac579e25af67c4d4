//! `plugin shadow`, `plugin promote` and `plugin demote`: show what a shadow would have done differently, make it live,
//! and make a live plugin a shadow.

use jobtap_core::engine::{ShadowDifference, ShadowReport};

use crate::cli::common::format::fsd;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::clock;
use crate::columns::{Column, Side, table};
use crate::rpc::services::plugin::{Demote, GetShadow, Promote};
use crate::users::Users;

/// Options and arguments of `plugin shadow`.
#[derive(Debug, clap::Args)]
pub(super) struct ShadowArgs {
    /// Print JSON, with all differences that are kept
    #[arg(long)]
    json: bool,
    /// Show at most so many of the last differences
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20, conflicts_with = "json")]
    count: usize,
    /// Name of the shadow
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Arguments of `plugin promote` and `plugin demote`.
#[derive(Debug, clap::Args)]
pub(super) struct NameArgs {
    /// Name of the plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Runs `plugin shadow`.
pub(super) async fn show(client: &Client, args: &ShadowArgs) -> Result<u8, CliError> {
    let request = GetShadow { name: args.plugin.clone() };
    let text = match args.json {
        true => format!("{}\n", client.call_raw(request).await?),
        false => {
            let report = client.call(request).await?;
            text(&report, args.count, &Users::system(), clock::now().as_secs())
        }
    };
    session::print(&text)?;
    Ok(0)
}

/// Runs `plugin promote`.
pub(super) async fn promote(client: &Client, args: &NameArgs) -> Result<u8, CliError> {
    let name = &args.plugin;
    let done = client.call(Promote { name: name.clone() }).await?;
    session::print(&match done.replaced {
        true => format!(
            "{name}: live, in the place of the plugin before; `demote` brings that one back\n"
        ),
        false => format!("{name}: live\n"),
    })?;
    Ok(0)
}

/// Runs `plugin demote`.
pub(super) async fn demote(client: &Client, args: &NameArgs) -> Result<u8, CliError> {
    let name = &args.plugin;
    let done = client.call(Demote { name: name.clone() }).await?;
    session::print(&match done.restored {
        true => format!("{name}: a shadow; the plugin before its promotion is live again\n"),
        false => format!("{name}: a shadow, and not live any more\n"),
    })?;
    Ok(0)
}

const LEFT: Side = Side::Left;
const RIGHT: Side = Side::Right;

/// The report for people.
fn text(report: &ShadowReport, count: usize, users: &Users, now: f64) -> String {
    let name = &report.name;
    let beside = match report.live {
        true => "compared with the live one",
        false => "compared with a manager without it",
    };
    let since = fsd((now - report.since).max(0.0).round());
    let mut text = format!("{name}: a shadow for {since}, {beside}\n");
    if let Some(why) = &report.stopped {
        text.push_str(&format!("stopped: {why}\n"));
    }
    let ShadowReport { compared, different, jobs, refuses, accepts, .. } = report;
    text.push_str(&format!("{compared} calls compared, {different} differ, about {jobs} jobs\n"));
    text.push_str(&format!(
        "only the shadow refuses {refuses} submissions and updates, only live plugins refuse {accepts}\n"
    ));
    let ShadowReport { calls, seconds, errors, panics, .. } = report;
    text.push_str(&format!("{calls} calls in {seconds} s, {errors} errors, {panics} panics\n"));
    if report.undecided > 0 {
        let count = report.undecided;
        text.push_str(&format!("not compared: {count} verdicts of asynchronous handlers\n"));
    }
    if !report.unseen.is_empty() {
        text.push_str(&format!("not called as a shadow: {}\n", report.unseen.join(", ")));
    }
    let mut section = |columns: &[Column], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text.push_str(&format!("\n{}", table(columns, rows.into_iter())));
        }
    };
    let kinds = report.kinds.iter().map(|(kind, count)| vec![kind.clone(), count.to_string()]);
    section(&[Column("WHAT", LEFT), Column("DIFFERENCES", RIGHT)], kinds.collect());
    let rows = report.users.iter().map(|user| {
        let counts = [user.differences, user.refuses, user.accepts].map(|count| count.to_string());
        [vec![users.name(user.user)], counts.to_vec()].concat()
    });
    let columns = [
        Column("USER", LEFT),
        Column("DIFFERENCES", RIGHT),
        Column("SHADOW-REFUSES", RIGHT),
        Column("LIVE-REFUSES", RIGHT),
    ];
    section(&columns, rows.collect());
    let row = |difference: &ShadowDifference| {
        let ShadowDifference { job, user, topic, kind, live, shadow, times, .. } = difference;
        vec![
            job.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            user.map_or_else(|| "-".to_owned(), |user| users.name(user)),
            topic.clone(),
            kind.clone(),
            times.to_string(),
            live.clone(),
            shadow.clone(),
        ]
    };
    let columns = |first| {
        [
            Column(first, LEFT),
            Column("USER", LEFT),
            Column("TOPIC", LEFT),
            Column("WHAT", LEFT),
            Column("TIMES", RIGHT),
            Column("LIVE", LEFT),
            Column("SHADOW", LEFT),
        ]
    };
    section(&columns("FARTHEST"), report.worst.iter().map(row).collect());
    section(&columns("ONE SO FAR"), report.open.iter().take(count).map(row).collect());
    let shown = report.differences.iter().rev().take(count);
    section(&columns("LAST"), shown.map(row).collect());
    let more = report.differences.len().saturating_sub(count);
    if more > 0 {
        text.push_str(&format!("{more} more are kept: --json, or --count\n"));
    }
    if report.dropped > 0 {
        text.push_str(&format!("{} older ones were dropped\n", report.dropped));
    }
    text
}

#[cfg(test)]
mod tests {
    use jobtap_core::engine::ShadowUser;
    use jobtap_core::job::JobId;

    use super::*;

    #[test]
    fn the_report_names_jobs_users_and_what_was_dropped() {
        let difference = |job: u64, live: &str| ShadowDifference {
            job: Some(JobId::new(job)),
            user: Some(7),
            topic: "job.validate".to_owned(),
            kind: "verdict".to_owned(),
            live: live.to_owned(),
            shadow: "accepts".to_owned(),
            times: 2,
            last: 50.0,
        };
        let report = ShadowReport {
            name: "quota".to_owned(),
            live: true,
            since: 10.0,
            compared: 9,
            different: 3,
            jobs: 2,
            accepts: 3,
            kinds: [("verdict".to_owned(), 3)].into(),
            users: vec![ShadowUser { user: 7, differences: 3, refuses: 0, accepts: 3 }],
            differences: vec![difference(1, "refuses: a"), difference(2, "refuses: \x1b[2J")],
            dropped: 4,
            unseen: vec!["slurm.job_submit".to_owned()],
            ..ShadowReport::default()
        };
        let users = Users::from_passwd("ann:x:7:7::/:/bin/sh");
        assert_eq!(
            text(&report, 1, &users, 70.0),
            "quota: a shadow for 1m, compared with the live one\n\
             9 calls compared, 3 differ, about 2 jobs\n\
             only the shadow refuses 0 submissions and updates, only live plugins refuse 3\n\
             0 calls in 0 s, 0 errors, 0 panics\n\
             not called as a shadow: slurm.job_submit\n\
             \n\
             WHAT     DIFFERENCES\n\
             verdict            3\n\
             \n\
             USER  DIFFERENCES  SHADOW-REFUSES  LIVE-REFUSES\n\
             ann             3               0             3\n\
             \n\
             LAST  USER  TOPIC         WHAT     TIMES  LIVE                SHADOW\n\
             ƒ3    ann   job.validate  verdict      2  refuses: \\u001b[2J  accepts\n\
             1 more are kept: --json, or --count\n\
             4 older ones were dropped\n"
        );
    }
}
