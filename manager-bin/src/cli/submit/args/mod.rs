//! The options that all submitting commands share, and the jobspec that they make. Options are kept as text
//! until then, since `--cc` may replace a part of any of them.

mod resources;
#[cfg(test)]
mod tests;

use clap::Args;
use jobtap_core::job::{Flags, Urgency};
use jobtap_core::jobspec::{Dependency, JobspecBuilder};
use jobtap_core::resource::Constraint;
use serde_json::{Value, json};

pub(crate) use self::resources::PerResourceArgs;

use crate::cli::submit::caller::Caller;
use crate::cli::submit::env;
use crate::cli::submit::env::EnvRules;
use crate::cli::submit::error::ArgError;
use crate::cli::submit::files;
use crate::cli::submit::rlimit;
use crate::cli::submit::setattr;
use crate::cli::submit::values::{begin_time, is_task_set, substitute_cc, time_limit, warning};

/// The options of `submit`, `run` and `bulksubmit` that describe a job, and its command.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub(crate) struct SubmitArgs {
    /// Number of tasks [default: 1, or one per node]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) ntasks: Option<String>,
    /// Number of cores per task [default: 1]
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) cores_per_task: Option<String>,
    /// Number of GPUs per task [default: 0]
    #[arg(short = 'g', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) gpus_per_task: Option<String>,
    /// Number of nodes; without --ntasks these are whole nodes
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) nodes: Option<String>,
    /// Whole nodes; needs --nodes
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,
    #[command(flatten)]
    pub(crate) per_resource: PerResourceArgs,
    /// Time limit: minutes, or a number with s, m, h or d; 0 for none
    #[arg(short = 't', long, value_name = "MIN|FSD", allow_negative_numbers = true)]
    pub(crate) time_limit: Option<String>,
    /// Send the tasks a signal before their time is up [default: SIGUSR1, 60s before]
    #[arg(long, value_name = "[SIG][@TIME]")]
    pub(crate) signal: Option<String>,
    /// Queue to submit to
    #[arg(short = 'q', long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Bank to account to
    #[arg(short = 'B', long, value_name = "NAME")]
    pub(crate) bank: Option<String>,
    /// Urgency: 0 to 31, hold, default or expedite
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) urgency: Option<String>,
    /// Name of the job [default: the name of the command]
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    /// What the job waits for: SCHEME:VALUE, e.g. afterok:JOBID (repeatable)
    #[arg(long, value_name = "URI")]
    pub(crate) dependency: Vec<String>,
    /// When the job may start at the earliest: +FSD from now, or seconds since the epoch
    #[arg(long, value_name = "TIME")]
    pub(crate) begin_time: Option<String>,
    /// Which nodes the job may run on: properties, host:HOSTS, rank:IDS, joined by and, or, not
    /// (repeatable)
    #[arg(long, value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) requires: Vec<String>,
    /// Set a jobspec attribute; ^KEY=FILE reads its JSON value from a file (repeatable)
    #[arg(short = 'S', long, value_name = "KEY[=VAL]")]
    pub(crate) setattr: Vec<String>,
    /// Set a job shell option (repeatable)
    #[arg(short = 'o', long, value_name = "OPT[=VAL]")]
    pub(crate) setopt: Vec<String>,
    /// Comma list of debug, waitable, novalidate (repeatable)
    #[arg(long, value_name = "FLAGS")]
    pub(crate) flags: Vec<String>,
    /// Print the jobspec and submit nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't print the job id
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) env: EnvRules,
    /// Resource limits of the job: NAME or pattern, NAME=VAL, -NAME (repeatable)
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub(crate) rlimit: Vec<String>,
    /// Read standard input from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<String>,
    /// Write standard output to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Write standard error to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) error: Option<String>,
    /// Don't buffer the job's output
    #[arg(short = 'u', long)]
    pub(crate) unbuffered: bool,
    /// Put the task's rank before each line of output
    #[arg(short = 'l', long)]
    pub(crate) label_io: bool,
    /// A file that the job finds in its own directory, {{tmpdir}} (repeatable)
    #[arg(long, value_name = "[NAME[:PERM]=]PATH")]
    pub(crate) add_file: Vec<String>,
    /// Working directory of the job
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Say more (repeatable)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The command of the job, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// The id of this copy under `--cc`, for the job's environment.
    #[arg(skip)]
    copy: Option<String>,
}

/// The options of `submit` and `bulksubmit` that `run` does not have.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub(crate) struct CopyArgs {
    /// One job per id of this set; {cc} in the other options and the command is the id
    #[arg(long, value_name = "IDSET")]
    pub(crate) cc: Option<String>,
    /// As --cc, without the variable FLUX_JOB_CC
    #[arg(long, value_name = "IDSET")]
    pub(crate) bcc: Option<String>,
    /// Wait for the end of all jobs
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait for this event of all jobs
    #[arg(long, value_name = "NAME")]
    pub(crate) wait_event: Option<String>,
    /// Copy the output of all jobs; implies --wait
    #[arg(long)]
    pub(crate) watch: bool,
    /// Write ids, output and errors to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<String>,
    /// Write errors to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log_stderr: Option<String>,
}

/// How the copies of a job get their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// `--cc`: by `{cc}`, and by the environment.
    Cc,
    /// `--bcc`: by `{cc}` only.
    Bcc,
}

impl Copies {
    /// The option with its sign.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Cc => "--cc=",
            Self::Bcc => "--bcc=",
        }
    }
}

/// The texts of the options that are given, each with what is typed before it, and the command's.
pub(crate) struct Texts<'a> {
    /// Options that have one value.
    pub(crate) single: Vec<(&'static str, &'a mut String)>,
    /// Options that may be repeated, and the words of the command.
    pub(crate) lists: [(&'static str, &'a mut Vec<String>); 9],
}

impl CopyArgs {
    /// The idset that the user wants copies for, as text.
    ///
    /// # Errors
    /// [`ArgError::CcAndBcc`].
    pub(crate) fn copies(&self) -> Result<Option<(Copies, &str)>, ArgError> {
        match (&self.cc, &self.bcc) {
            (Some(_), Some(_)) => Err(ArgError::CcAndBcc),
            (Some(ids), None) => Ok(Some((Copies::Cc, ids))),
            (None, Some(ids)) => Ok(Some((Copies::Bcc, ids))),
            (None, None) => Ok(None),
        }
    }
}

impl SubmitArgs {
    /// These options for the copy `id`: `{cc}` is replaced in every text.
    pub(crate) fn copy_for(&self, id: &str, how: Copies) -> Self {
        let mut args = self.clone();
        let texts = args.texts();
        for (_, text) in texts.single {
            *text = substitute_cc(text, id);
        }
        for text in texts.lists.into_iter().flat_map(|(_, list)| list) {
            *text = substitute_cc(text, id);
        }
        args.copy = (how == Copies::Cc).then(|| id.to_owned());
        args
    }

    /// All texts in which something may be replaced.
    pub(crate) fn texts(&mut self) -> Texts<'_> {
        let single = [
            ("-n", &mut self.ntasks),
            ("-c", &mut self.cores_per_task),
            ("-g", &mut self.gpus_per_task),
            ("-N", &mut self.nodes),
            ("--cores=", &mut self.per_resource.cores),
            ("--tasks-per-node=", &mut self.per_resource.tasks_per_node),
            ("--tasks-per-core=", &mut self.per_resource.tasks_per_core),
            ("--gpus-per-node=", &mut self.per_resource.gpus_per_node),
            ("--shape=", &mut self.per_resource.shape),
            ("-t", &mut self.time_limit),
            ("--signal=", &mut self.signal),
            ("-q", &mut self.queue),
            ("-B", &mut self.bank),
            ("--urgency=", &mut self.urgency),
            ("--job-name=", &mut self.job_name),
            ("--begin-time=", &mut self.begin_time),
            ("--input=", &mut self.input),
            ("--output=", &mut self.output),
            ("--error=", &mut self.error),
            ("--cwd=", &mut self.cwd),
        ];
        let single = single.into_iter().filter_map(|(option, text)| Some((option, text.as_mut()?)));
        let lists = [
            ("--dependency=", &mut self.dependency),
            ("--requires=", &mut self.requires),
            ("-S", &mut self.setattr),
            ("-o", &mut self.setopt),
            ("--flags=", &mut self.flags),
            ("--env=", &mut self.env.0),
            ("--rlimit=", &mut self.rlimit),
            ("--add-file=", &mut self.add_file),
            ("", &mut self.command),
        ];
        Texts { single: single.collect(), lists }
    }

    /// The jobspec that these options mean. It is checked only as far as the options go: the manager
    /// validates what it is sent.
    ///
    /// # Errors
    /// [`ArgError`], with the text for the user.
    pub(crate) fn jobspec(&self, caller: &Caller) -> Result<Value, ArgError> {
        let mut builder = self.resources()?;
        if let Some(limit) = &self.time_limit {
            builder = builder.duration(time_limit(limit)?);
        }
        if let Some(name) = &self.job_name {
            builder = builder.name(name);
        }
        if let Some(queue) = &self.queue {
            builder = builder.queue(queue);
        }
        if let Some(bank) = &self.bank {
            builder = builder.attribute("bank", json!(bank))?;
        }
        for uri in &self.dependency {
            builder = builder.dependency(Dependency::from_uri(uri)?);
        }
        if let Some(time) = &self.begin_time {
            builder = builder.dependency(begin_time(time, caller.now)?);
        }
        if !self.requires.is_empty() {
            builder = builder.attribute("constraints", self.constraint()?.to_value())?;
        }
        let cwd = self.cwd.as_deref().map_or_else(|| caller.cwd.clone(), |cwd| caller.file(cwd));
        builder = builder.cwd(&cwd.to_string_lossy());
        builder = self.environment(builder, caller)?;
        builder = self.io(builder)?;
        builder = self.shell(builder, caller)?;
        if !self.add_file.is_empty() {
            let files = files::files(&self.add_file, caller)?;
            builder = builder.attribute("files", files.into())?;
        }
        for setting in &self.setattr {
            builder = setattr::set_attribute(builder, setting, caller)?;
        }
        Ok(builder.to_value())
    }

    /// All that `--requires` says. Each option is read by itself, so that an `or` in one doesn't take
    /// in another.
    fn constraint(&self) -> Result<Constraint, ArgError> {
        self.requires.iter().try_fold(Constraint::Always, |all, query| {
            let one = Constraint::from_query(query).map_err(|error| ArgError::Requires {
                query: query.clone(),
                error: error.into(),
            })?;
            Ok(all.and(one))
        })
    }

    fn environment(
        &self,
        builder: JobspecBuilder,
        caller: &Caller,
    ) -> Result<JobspecBuilder, ArgError> {
        let mut env = env::apply(&self.env.0, caller)?;
        if let Some(id) = &self.copy {
            for name in ["FLUX_JOB_CC", "JOBTAP_JOB_CC"] {
                env.variables.insert(name.to_owned(), id.clone());
            }
        }
        let builder = builder.environment(env.variables);
        if env.expand.is_empty() {
            return Ok(builder);
        }
        Ok(builder.shell_option("env-expand", json!(env.expand))?)
    }

    fn io(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        let streams = [
            ("input.stdin", &self.input),
            ("output.stdout", &self.output),
            ("output.stderr", &self.error),
        ];
        for (stream, path) in streams {
            let Some(path) = path else { continue };
            if stream == "input.stdin" && is_task_set(path) {
                return Err(ArgError::PerTaskInput);
            }
            builder = builder.shell_option(&format!("{stream}.type"), json!("file"))?;
            builder = builder.shell_option(&format!("{stream}.path"), json!(path))?;
            if self.label_io && stream != "input.stdin" {
                builder = builder.shell_option(&format!("{stream}.label"), json!(true))?;
            }
        }
        if self.unbuffered {
            builder = builder
                .shell_option("output.stdout.buffer.type", json!("none"))?
                .shell_option("output.stderr.buffer.type", json!("none"))?
                .shell_option("output.batch-timeout", json!(0))?;
        }
        Ok(builder)
    }

    fn shell(
        &self,
        mut builder: JobspecBuilder,
        caller: &Caller,
    ) -> Result<JobspecBuilder, ArgError> {
        if let Some(text) = &self.signal {
            builder = builder.shell_option("signal", warning(text)?)?;
        }
        let rlimits = rlimit::apply(&self.rlimit, &caller.rlimits)?;
        if !rlimits.is_empty() {
            builder = builder.shell_option("rlimit", json!(rlimits))?;
        }
        for setting in &self.setopt {
            builder = setattr::set_option(builder, setting)?;
        }
        Ok(builder)
    }

    /// The urgency for the submit request. Its range is the manager's to check, so that every way to
    /// submit refuses it in the same words.
    ///
    /// # Errors
    /// [`ArgError::Urgency`] for text that is neither a number nor a name.
    pub(crate) fn urgency(&self) -> Result<i64, ArgError> {
        let known = match self.urgency.as_deref() {
            None | Some("default") => Urgency::DEFAULT,
            Some("hold") => Urgency::HOLD,
            Some("expedite") => Urgency::EXPEDITE,
            Some(text) => return text.parse().map_err(|_| ArgError::Urgency(text.to_owned())),
        };
        Ok(known.value().into())
    }

    /// The flags for the submit request.
    ///
    /// # Errors
    /// [`ArgError::Flag`] names the word that is no flag.
    pub(crate) fn job_flags(&self) -> Result<Flags, ArgError> {
        let words = self.flags.iter().flat_map(|list| list.split(','));
        words.filter(|word| !word.is_empty()).try_fold(Flags::NONE, |flags, word| {
            let flag: Flags = word.parse().map_err(|_| ArgError::Flag(word.to_owned()))?;
            Ok(flags | flag)
        })
    }

    /// Notes about deprecated options, for standard error.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let schemes = self.dependency.iter().map(|uri| uri.split(':').next().unwrap_or_default());
        schemes
            .filter(|scheme| scheme.eq_ignore_ascii_case("after"))
            .map(|_| "dependency scheme 'after' is deprecated, use 'afterstart'")
            .collect()
    }
}
