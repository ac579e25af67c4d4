//! `slurm try`: runs a `job_submit.lua` on a described request and prints what it did.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use jobtap_builtins::lua::{OnError, Options, Script, Surroundings, Verdict, Version};
use jobtap_core::engine::Requester;
use jobtap_core::slurm::{
    Environment, Field, JobDescriptor, JobRecord, Kind, NO_VAL, Partition, Release, SetError, Value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::words::{Comments, Escapes, OpenQuote, split};
use crate::cli::sbatch;
use crate::files::input;

/// Options and arguments of `slurm try`.
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "SPEC describes a job or a record by fields of Slurm:\n",
    "  \"-p debug -t 10 -n 4\"             options of sbatch, and a script; only of a job, and first\n",
    "  \"partition=debug time_limit=10\"   fields; a value with blanks stands in quotes\n",
    "  \"env.NAME=value\"                  a variable of the job's environment\n",
    "  job.json                          a file with an object of fields",
))]
pub(crate) struct TryArgs {
    /// The script
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The request; of several, the later ones hold
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    job: Vec<String>,
    /// Call slurm_job_modify with the request as the change; --record is the job as it is
    #[arg(long)]
    modify: bool,
    /// The job that is changed
    #[arg(long, value_name = "SPEC", requires = "modify")]
    record: Vec<String>,
    /// A job for slurm.jobs; repeatable
    #[arg(long, value_name = "SPEC")]
    other: Vec<String>,
    /// A partition that the user may use: a name or a SPEC; repeatable
    #[arg(long, value_name = "NAME|SPEC")]
    partition: Vec<String>,
    /// The id of the user [default: your own]
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// The release of Slurm for which the script was written
    #[arg(long, value_name = "VERSION", default_value_t)]
    slurm_version: Release,
    /// The version of Lua
    #[arg(long, value_name = "VERSION", default_value = "5.1", value_parser = ["5.1", "5.4"])]
    lua: String,
    /// Without files and commands
    #[arg(long)]
    sandbox: bool,
    /// Accept the request when the script fails
    #[arg(long)]
    accept_on_error: bool,
}

impl TryArgs {
    /// The script.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The user who makes the request.
    pub(super) fn uid(&self) -> u32 {
        self.uid.unwrap_or_else(|| rustix::process::getuid().as_raw())
    }
}

/// Returns the report, and whether the request was accepted. The description contains what the system knows about the
/// user, unless a SPEC says otherwise.
pub(super) fn attempt(args: &TryArgs, requester: Requester) -> Result<(String, bool), CliError> {
    let options = Options {
        release: args.slurm_version,
        version: if args.lua == "5.4" { Version::Lua54 } else { Version::Lua51 },
        sandbox: args.sandbox,
        on_error: if args.accept_on_error { OnError::Accept } else { OnError::Reject },
        cluster: "cluster".to_owned(),
        ..Options::default()
    };
    let uid = args.uid();
    let Requester { name: user_name, group, host: alloc_node, .. } = requester;
    // A modify request carries no user ids.
    let (user_id, group_id) = match args.modify {
        true => (NO_VAL, NO_VAL),
        false => (uid, group.unwrap_or(0)),
    };
    let default = JobDescriptor::default();
    let mut before = JobDescriptor { user_id, user_name, group_id, alloc_node, ..default };
    for spec in &args.job {
        before = described(before, spec)?;
    }
    let record =
        args.record.iter().try_fold(JobRecord::default(), |record, spec| recorded(record, spec))?;
    let around = Surroundings {
        partitions: each(&args.partition, partition)?,
        jobs: each(&args.other, |spec| recorded(JobRecord::default(), spec))?,
        reservations: Vec::new(),
    };
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let mut loaded = Vec::new();
    let mut script = Script::load(&path, options, &mut loaded)
        .map_err(|error| CliError::failure(error.to_string()))?;
    let mut after = before.clone();
    let mut verdict = match args.modify {
        true => script.modify(&mut after, record, around, uid),
        false => script.submit(&mut after, around, uid),
    };
    loaded.append(&mut verdict.log);
    verdict.log = loaded;
    Ok((report(&before, &after, &verdict), verdict.code == 0))
}

fn each<T>(
    specs: &[String],
    read: impl Fn(&str) -> Result<T, CliError>,
) -> Result<Vec<T>, CliError> {
    specs.iter().map(|spec| read(spec)).collect()
}

/// A partition of this name, or as a SPEC describes it.
fn partition(spec: &str) -> Result<Partition, CliError> {
    if spec.contains('=') || spec.ends_with(".json") {
        return recorded(Partition::default(), spec);
    }
    Ok(Partition { name: Some(spec.to_owned()), ..Partition::default() })
}

/// The entries of a SPEC: names and values, or the members of an object in a file.
fn entries(spec: &str) -> Result<Vec<(String, Json)>, CliError> {
    if spec.ends_with(".json") && !spec.contains('=') {
        let failed = |text: String| CliError::failure(format!("{spec}: {text}"));
        let text = input::text(spec).map_err(|error| failed(system_text(&error)))?;
        let value: Json = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let Json::Object(object) = value else {
            return Err(failed("must be an object of fields".to_owned()));
        };
        return Ok(object.into_iter().collect());
    }
    let entry = |word: String| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err(CliError::usage(format!("{word:?} is not FIELD=VALUE"))),
    };
    words(spec)?.into_iter().map(entry).collect()
}

/// The words of a SPEC.
fn words(spec: &str) -> Result<Vec<String>, CliError> {
    split(spec, Comments::Never, Escapes::All).map_err(|OpenQuote(quote)| {
        CliError::usage(format!("{spec:?}: the quote {quote} is not closed"))
    })
}

/// Adds what a SPEC says to the description of a request.
fn described(mut desc: JobDescriptor, spec: &str) -> Result<JobDescriptor, CliError> {
    if spec.trim_start().starts_with('-') {
        let of_user = |from: &JobDescriptor, rest: JobDescriptor| JobDescriptor {
            user_id: from.user_id,
            user_name: from.user_name.clone(),
            group_id: from.group_id,
            alloc_node: from.alloc_node.clone(),
            ..rest
        };
        if desc != of_user(&desc, JobDescriptor::default()) {
            return Err(CliError::usage(format!("{spec:?}: options of sbatch come first")));
        }
        let made = sbatch::described(&words(spec)?)?;
        return Ok(of_user(&desc, made));
    }
    for (name, value) in entries(spec)? {
        if let Some(variable) = name.strip_prefix("env.") {
            desc.environment.set(variable, value.as_str().unwrap_or_default());
            continue;
        }
        let plain = match &value {
            Json::String(text) => Some(Value::from(text.as_str())),
            Json::Number(number) => number.as_f64().map(Value::Number),
            _ => None,
        };
        let set = plain.map(|plain| desc.set(&name, plain));
        match set {
            Some(Ok(())) => {}
            Some(Err(SetError::Type { expected, .. })) => {
                return Err(CliError::usage(format!("{name}: a {expected} is expected")));
            }
            // A test can also set what scripts can't write.
            _ => desc = with_member(desc, JobDescriptor::FIELDS, &name, value)?,
        }
    }
    Ok(desc)
}

/// Adds what a SPEC says to a record.
fn recorded<T: Serialize + DeserializeOwned + Recorded>(
    record: T,
    spec: &str,
) -> Result<T, CliError> {
    entries(spec)?
        .into_iter()
        .try_fold(record, |record, (name, value)| with_member(record, T::TABLE, &name, value))
}

/// A record with a table of fields.
trait Recorded: Sized + 'static {
    const TABLE: &'static [Field<Self>];
}

impl Recorded for JobRecord {
    const TABLE: &'static [Field<Self>] = Self::FIELDS;
}

impl Recorded for Partition {
    const TABLE: &'static [Field<Self>] = Self::FIELDS;
}

fn with_member<T: Serialize + DeserializeOwned>(
    record: T,
    table: &'static [Field<T>],
    name: &str,
    value: Json,
) -> Result<T, CliError> {
    let unknown = || {
        let near = jobtap_core::suggest::nearest(name, table.iter().map(|field| field.name));
        let near = near.map(|near| format!("; did you mean \"{near}\"?"));
        CliError::usage(format!("{name}: no such field{}", near.unwrap_or_default()))
    };
    let field = Field::find(table, name).ok_or_else(unknown)?;
    let wrong = |error: serde_json::Error| CliError::usage(format!("{name}: {error}"));
    let mut members = serde_json::to_value(record).map_err(wrong)?;
    let value = match (field.kind, value) {
        (Kind::Number, Json::String(text)) => serde_json::from_str(&text).map_err(wrong)?,
        (Kind::Boolean, Json::String(text)) => Json::Bool(text == "true"),
        (Kind::List { .. }, Json::String(text)) => words(&text)?.into(),
        (_, value) => value,
    };
    // A field that is a view of another one has no member of its own.
    let member = members.get_mut(name).ok_or_else(|| {
        CliError::usage(format!("{name} can't be set; set {}", field.view_of.join(" or ")))
    })?;
    *member = value;
    serde_json::from_value(members).map_err(wrong)
}

fn report(before: &JobDescriptor, after: &JobDescriptor, verdict: &Verdict) -> String {
    let mut text = String::new();
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}\n  {}\n", lines.join("\n  "));
        }
    };
    section("changed", changes(before, after));
    let lines = verdict.messages.iter().flat_map(|message| message.lines());
    section("told the user", lines.map(str::to_owned).collect());
    let log = verdict.log.iter().map(|line| format!("{}: lua: {}", line.level.name(), line.text));
    section("logged", log.collect());
    let _ = match verdict.refusal() {
        None => writeln!(text, "accepted"),
        Some(error) if error.name().is_empty() => {
            writeln!(text, "refused: {} ({})", error.text(), error.code())
        }
        Some(error) => {
            writeln!(text, "refused: {} ({}, {})", error.text(), error.name(), error.code())
        }
    };
    text
}

/// The fields that differ, with their values before and after.
fn changes(before: &JobDescriptor, after: &JobDescriptor) -> Vec<String> {
    let unset = JobDescriptor::default();
    // Memory is shown per CPU or per node, not in the field that combines both.
    let memory = ["min_mem_per_cpu", "min_mem_per_node"];
    let shown = JobDescriptor::FIELDS.iter().filter(|field| match field.kind {
        Kind::Environment => false,
        _ if field.name == "pn_min_memory" => false,
        _ => field.view_of.is_empty() || memory.contains(&field.name),
    });
    let mut lines = Vec::new();
    for field in shown {
        let (old, new) = ((field.get)(before), (field.get)(after));
        if old != new {
            let none = (field.get)(&unset);
            let value =
                |value: Value| if value == none { "unset".to_owned() } else { quoted(&value) };
            lines.push(format!("{}: {} -> {}", field.name, value(old), value(new)));
        }
    }
    lines.extend(variables(&before.environment, &after.environment));
    lines
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

fn variables(before: &Environment, after: &Environment) -> Vec<String> {
    let changed = after.iter().filter(|(name, value)| before.get(name) != Some(*value));
    let line = |(name, value): (&str, &str)| {
        let old = before.get(name).map_or_else(|| "unset".to_owned(), |old| format!("{old:?}"));
        format!("environment.{name}: {old} -> {value:?}")
    };
    changed.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_request_are_set_by_name() {
        let spec = "partition=debug time_limit=10 user_name=alice env.A='b c' argv='run -x'";
        let desc = described(JobDescriptor::default(), spec).unwrap();
        assert_eq!((desc.partition.as_deref(), desc.time_limit), (Some("debug"), Some(10)));
        assert_eq!(desc.user_name.as_deref(), Some("alice"));
        assert_eq!(desc.environment.get("A"), Some("b c"));
        assert_eq!(desc.argv, ["run", "-x"]);
        let wrong = |spec: &str| described(JobDescriptor::default(), spec).unwrap_err().to_string();
        assert_eq!(
            wrong("tiem_limit=5"),
            "tiem_limit: no such field; did you mean \"time_limit\"?"
        );
        assert_eq!(wrong("time_limit=x"), "time_limit: a number is expected");
        assert_eq!(wrong("time_limit"), "\"time_limit\" is not FIELD=VALUE");
    }

    #[test]
    fn options_of_sbatch_describe_a_request() {
        let desc = described(JobDescriptor::default(), "-p debug -t 10 -n 4 --gres=gpu:1").unwrap();
        assert_eq!((desc.partition.as_deref(), desc.time_limit), (Some("debug"), Some(10)));
        assert_eq!(desc.num_tasks, Some(4));
        assert!(desc.script.is_some());
        let desc = described(desc, "qos=high").unwrap();
        let error = described(desc, "-n 5").unwrap_err().to_string();
        assert_eq!(error, "\"-n 5\": options of sbatch come first");
    }

    #[test]
    fn records_are_described_in_the_same_way() {
        let job = recorded(JobRecord::default(), "job_id=7 name=sim").unwrap();
        assert_eq!((job.job_id, job.name.as_deref()), (7, Some("sim")));
        let named = partition("batch").unwrap();
        assert_eq!(named.name.as_deref(), Some("batch"));
        let described = partition("name=gpu max_time=60").unwrap();
        assert_eq!((described.name.as_deref(), described.max_time), (Some("gpu"), 60));
        let error = partition("name=a flag_default=1").unwrap_err();
        assert_eq!(error.to_string(), "flag_default can't be set; set flags");
    }

    #[test]
    fn changes_are_shown_with_both_values() {
        let before = described(JobDescriptor::default(), "qos=a time_limit=5").unwrap();
        let after = described(before.clone(), "qos=b min_mem_per_cpu=4000 env.X=1").unwrap();
        let after = JobDescriptor { time_limit: None, ..after };
        assert_eq!(
            changes(&before, &after),
            [
                "qos: \"a\" -> \"b\"",
                "time_limit: 5 -> unset",
                "min_mem_per_cpu: unset -> 4000",
                "environment.X: unset -> \"1\"",
            ]
        );
    }
}
