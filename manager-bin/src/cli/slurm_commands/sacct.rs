//! `sacct`: the report of `accounting report` with the options, times and ids of Slurm's command.

use std::collections::HashMap;
use std::process::ExitCode;

use jobtap_core::array::Element;
use jobtap_core::job::JobId;
use jobtap_core::resource::{Hostlist, Idset};

use super::job_line::display;
use super::names::{print_version, split, variable};
use super::squeue::named;
use crate::cli::accounting::{ReportArgs, SelectArgs, SlurmReport};
use crate::cli::common::arrays::{jobspecs, shown};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::jobs::row::JobRow;
use crate::cli::sbatch::begin::{self, Toward};
use crate::client::Client;
use crate::rpc::services::job_list::ListArrays;

const COMMAND: &str = "sacct";

/// The columns of -b.
const BRIEF: &str = "jobid,state,exitcode";

/// Options of `sacct`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    args_override_self = true,
    after_help = "\
As with Slurm's command, these are your own jobs that ended today and those that are active, unless options say otherwise.
Variable: SACCT_FORMAT.
Left out: steps (their lines and fields), memory, -q, -l, -B, -c, -f, --json, reservations and clusters."
)]
pub(crate) struct SacctArgs {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// Jobs of all users
    #[arg(short = 'a', long)]
    allusers: bool,
    /// Only jobs of these accounts
    #[arg(short = 'A', long, value_name = "ACCOUNT,..")]
    accounts: Option<String>,
    /// The columns jobid, state and exitcode
    #[arg(short = 'b', long)]
    brief: bool,
    /// Print this in the place of "|"
    #[arg(long, value_name = "TEXT", default_value = "|")]
    delimiter: String,
    /// Jobs that were submitted again too, as always here
    #[arg(short = 'D', long)]
    duplicates: bool,
    /// Only jobs that ended before this time
    #[arg(short = 'E', long, value_name = "TIME")]
    endtime: Option<String>,
    /// Columns, each with %WIDTH if its width is to differ: JobID,JobName%30,State
    #[arg(short = 'o', long, value_name = "COLUMN,..")]
    format: Option<String>,
    /// Print the names of all columns
    #[arg(short = 'e', long)]
    helpformat: bool,
    /// Only these jobs: ID, or ID_3, ID_[1-4] of an array
    #[arg(short = 'j', long, value_name = "ID,..")]
    jobs: Vec<String>,
    /// Only jobs with these names
    #[arg(long, value_name = "NAME,..")]
    name: Option<String>,
    /// Print no headings
    #[arg(short = 'n', long)]
    noheader: bool,
    /// Only jobs that ran on these hosts
    #[arg(short = 'N', long, value_name = "HOSTS")]
    nodelist: Option<String>,
    /// Like --parsable2, with a "|" at the end of each line too
    #[arg(short = 'p', long)]
    parsable: bool,
    /// Print whole texts, separated by "|"
    #[arg(short = 'P', long)]
    parsable2: bool,
    /// Only jobs of these partitions
    #[arg(short = 'r', long, value_name = "PARTITION,..")]
    partition: Option<String>,
    /// Only jobs that ended at this time or later
    #[arg(short = 'S', long, value_name = "TIME")]
    starttime: Option<String>,
    /// Only jobs in these states, such as CD, FAILED, R
    #[arg(short = 's', long, value_name = "STATE,..")]
    state: Option<String>,
    /// Only jobs of these users
    #[arg(short = 'u', long, aliases = ["user", "uid"], value_name = "USER,..")]
    users: Option<String>,
    /// Only whole jobs, as always here
    #[arg(short = 'X', long)]
    allocations: bool,
}

/// Runs the command.
pub(crate) fn run(args: SacctArgs) -> ExitCode {
    if args.version {
        return print_version(COMMAND);
    }
    session::run(COMMAND, Family::Slurm, async {
        if args.helpformat {
            return SlurmReport::help();
        }
        let named = named(&args.jobs)?;
        let client = Client::connect().await?;
        let mut jobs = Vec::new();
        for named in &named {
            jobs.extend(named.jobs(&client).await?);
        }
        let report = args.report(!named.is_empty())?;
        let hosts = args.nodelist.as_ref().map(|hosts| hosts.parse::<Hostlist>()).transpose();
        let hosts = hosts.map_err(CliError::failure)?;
        let in_list = |list: &Option<String>, text: &str| {
            list.as_ref().is_none_or(|list| split(list).iter().any(|word| word == text))
        };
        let on_hosts = |row: &JobRow<'_>| {
            hosts.as_ref().is_none_or(|wanted| {
                let own = row.text("nodelist").parse::<Hostlist>();
                own.is_ok_and(|own| own.iter().any(|host| wanted.contains(&host)))
            })
        };
        let report = SlurmReport::read(&report, |row| {
            (named.is_empty() || jobs.contains(&row.id))
                && in_list(&args.name, row.text("name"))
                && in_list(&args.accounts, row.text("bank"))
                && on_hosts(row)
        })?;
        let ids = report.ids();
        let places = jobspecs(&client, &ids).await.into_iter();
        let places = places.map(|jobspec| Element::of(&jobspec.ok()?));
        let places: HashMap<JobId, Option<Element>> = ids.iter().copied().zip(places).collect();
        let arrays = client.call(ListArrays::default()).await?.arrays.into_iter();
        let waiting: HashMap<JobId, Idset> =
            arrays.map(|array| (array.id, array.waiting)).collect();
        report.print(|id| match (places.get(&id).copied().flatten(), waiting.get(&id)) {
            (Some(place), _) => shown(place),
            // The pending elements of an array have one line.
            (None, Some(all)) if all.len() == 1 => format!("{}_{all}", id.as_u64()),
            (None, Some(all)) if !all.is_empty() => format!("{}_[{all}]", id.as_u64()),
            (None, _) => id.as_u64().to_string(),
        })?;
        Ok(0)
    })
}

/// Whether a time in seconds has passed.
fn is_past(time: &str) -> bool {
    time.parse::<f64>().is_ok_and(|time| time < display().now.floor())
}

impl SacctArgs {
    /// The options of the report. A job whose id is given is listed whoever its user is and whenever it ended.
    fn report(&self, named: bool) -> Result<ReportArgs, CliError> {
        let time = |option: &str, text: &Option<String>| -> Result<Option<String>, CliError> {
            let Some(text) = text else { return Ok(None) };
            let seconds = begin::parse(text, display().now, &display().zone, Toward::Past);
            let invalid =
                || CliError::failure(format!("Invalid time specification for {option}: {text}"));
            Ok(Some(seconds.ok_or_else(invalid)?.to_string()))
        };
        let earliest = named.then(|| "1970-01-02".to_owned());
        let select = SelectArgs {
            since: time("--starttime", &self.starttime)?.or(earliest),
            // Up to now includes the jobs that are active.
            until: time("--endtime", &self.endtime)?.filter(|time| is_past(time)),
            user: self.users.clone(),
            queue: self.partition.clone(),
            state: self.state.clone(),
        };
        let brief = self.brief.then(|| BRIEF.to_owned());
        Ok(ReportArgs {
            select,
            all_users: self.users.is_none() && (self.allusers || named),
            format: self.format.clone().or(brief).or_else(|| variable("SACCT_FORMAT")),
            parsable2: self.parsable2,
            parsable: self.parsable,
            delimiter: self.delimiter.clone(),
            noheader: self.noheader,
            ..ReportArgs::default()
        })
    }
}
