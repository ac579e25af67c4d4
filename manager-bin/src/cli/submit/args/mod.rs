//! The options that all submitting commands have in common, and the jobspec that they make. They are parsed only when
//! the jobspec is made: until then `--cc` and `bulksubmit` can replace parts of any option.

mod resources;
#[cfg(test)]
mod tests;

use clap::Args;
use jobtap_core::job::{Flags, Urgency};
use jobtap_core::jobspec::{JobspecBuilder, JobspecError};
use jobtap_core::resource::{Constraint, ConstraintFault, QueryError};
use serde_json::{Value, json};

pub(crate) use self::resources::PerResourceArgs;

use crate::cli::common::progress::ProgressArgs;
use crate::cli::submit::caller::Caller;
use crate::cli::submit::dependencies::DependencyOptions;
use crate::cli::submit::env::{self, EnvRules, Environment};
use crate::cli::submit::error::ArgError;
use crate::cli::submit::files;
use crate::cli::submit::rlimit;
use crate::cli::submit::setattr;
use crate::cli::submit::values::{count, is_task_set, substitute_cc, taskmap, time_limit, warning};

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
    /// Number of nodes; without --ntasks the job gets them exclusively
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) nodes: Option<String>,
    /// Allocate whole nodes; needs --nodes
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,
    #[command(flatten)]
    pub(crate) per_resource: PerResourceArgs,
    /// Time limit: minutes, or a number with s, m, h or d; 0 for none
    #[arg(short = 't', long, value_name = "MIN|FSD", allow_negative_numbers = true)]
    pub(crate) time_limit: Option<String>,
    /// Send a signal to the tasks before the job expires [default: SIGUSR1, 60s before]
    #[arg(long, value_name = "[SIG][@TIME]")]
    pub(crate) signal: Option<String>,
    /// Queue to submit to
    #[arg(short = 'q', long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Bank to charge
    #[arg(short = 'B', long, value_name = "NAME")]
    pub(crate) bank: Option<String>,
    /// Urgency: 0 to 31, hold, default or expedite
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) urgency: Option<String>,
    /// Name of the job [default: the name of the command]
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
    #[command(flatten)]
    pub(crate) dependencies: DependencyOptions,
    /// Constraint on the nodes of the job: properties, host:HOSTS, rank:IDS, joined by and, or, not
    /// (repeatable)
    #[arg(long, value_name = "CONSTRAINT", allow_hyphen_values = true)]
    pub(crate) requires: Vec<String>,
    /// Set a jobspec attribute; ^KEY=FILE reads its JSON value from a file (repeatable)
    #[arg(short = 'S', long, value_name = "KEY[=VAL]")]
    pub(crate) setattr: Vec<String>,
    /// Set a job shell option (repeatable)
    #[arg(short = 'o', long, value_name = "OPT[=VAL]")]
    pub(crate) setopt: Vec<String>,
    /// Comma-separated list of debug, waitable, novalidate (repeatable)
    #[arg(long, value_name = "FLAGS")]
    pub(crate) flags: Vec<String>,
    /// Print the jobspec instead of submitting the job
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
    /// Append the output to a file that many jobs share, such as the elements of an array; `job unpack` reads it
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) output_pack: Option<String>,
    /// Don't buffer the job's output
    #[arg(short = 'u', long)]
    pub(crate) unbuffered: bool,
    /// Prefix each line of output with the task rank
    #[arg(short = 'l', long)]
    pub(crate) label_io: bool,
    /// Put a file into the directory {{tmpdir}} of the job: the one at the path ARG, or with ARG as its contents if
    /// that has a newline, which can be written \n (repeatable)
    #[arg(long, value_name = "[NAME[:PERM]=]ARG")]
    pub(crate) add_file: Vec<String>,
    /// Working directory of the job
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// Map tasks to nodes by a scheme: block, cyclic[:N], manual:MAP (RFC 34) or hostfile:FILE
    #[arg(long, value_name = "SCHEME[:VALUE]")]
    pub(crate) taskmap: Option<String>,
    /// Print the plugins of the command line that are loaded, and exit
    #[arg(long)]
    pub(crate) list_plugins: bool,
    /// Print more messages (repeatable)
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Command of the job with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// The id of this copy for the environment of the job, with `--cc`.
    #[arg(skip)]
    copy: Option<String>,
}

/// The options of `submit` and `bulksubmit` that `run` doesn't have.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub(crate) struct CopyArgs {
    /// Submit a copy for each id of this set; {cc} in options and command is replaced by the id
    #[arg(long, value_name = "IDSET")]
    pub(crate) cc: Option<String>,
    /// As --cc, without setting the variable FLUX_JOB_CC
    #[arg(long, value_name = "IDSET")]
    pub(crate) bcc: Option<String>,
    /// Wait until all jobs are inactive
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait until all jobs have had this event
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
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// How the copies of a job learn their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// `--cc`: by replacing `{cc}`, and by a variable of the environment.
    Cc,
    /// `--bcc`: only by replacing `{cc}`.
    Bcc,
}

impl Copies {
    /// The option up to its value.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Cc => "--cc=",
            Self::Bcc => "--bcc=",
        }
    }
}

/// The values of all options that are set, each with the text that precedes it on a command line, and the
/// words of the command.
pub(crate) struct Texts<'a> {
    /// Options with one value.
    pub(crate) single: Vec<(&'static str, &'a mut String)>,
    /// Repeatable options, and the words of the command.
    pub(crate) lists: [(&'static str, &'a mut Vec<String>); 10],
}

impl CopyArgs {
    /// The kind of copies and their ids, as the text of an idset. `None` without copies, which an empty text
    /// means too.
    ///
    /// # Errors
    /// [`ArgError::CcAndBcc`] if both options are given.
    pub(crate) fn copies(&self) -> Result<Option<(Copies, &str)>, ArgError> {
        match (&self.cc, &self.bcc) {
            (Some(_), Some(_)) => Err(ArgError::CcAndBcc),
            (Some(ids), None) if !ids.is_empty() => Ok(Some((Copies::Cc, ids))),
            (None, Some(ids)) if !ids.is_empty() => Ok(Some((Copies::Bcc, ids))),
            _ => Ok(None),
        }
    }
}

impl SubmitArgs {
    /// The options for the copy `id`: replaces `{cc}` in every value.
    pub(crate) fn copy_for(&self, id: u32, kind: Copies) -> Self {
        let mut args = self.clone();
        let texts = args.texts();
        for (_, text) in texts.single {
            *text = substitute_cc(text, id);
        }
        for text in texts.lists.into_iter().flat_map(|(_, list)| list) {
            *text = substitute_cc(text, id);
        }
        args.copy = (kind == Copies::Cc).then(|| id.to_string());
        args
    }

    /// All values in which fields can be replaced.
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
            ("--resources-json=", &mut self.per_resource.resources_json),
            ("-t", &mut self.time_limit),
            ("--signal=", &mut self.signal),
            ("-q", &mut self.queue),
            ("-B", &mut self.bank),
            ("--urgency=", &mut self.urgency),
            ("--job-name=", &mut self.job_name),
            ("--input=", &mut self.input),
            ("--output=", &mut self.output),
            ("--error=", &mut self.error),
            ("--output-pack=", &mut self.output_pack),
            ("--cwd=", &mut self.cwd),
            ("--taskmap=", &mut self.taskmap),
        ];
        let single = single.into_iter().filter_map(|(option, text)| Some((option, text.as_mut()?)));
        let lists = [
            ("--dependency=", &mut self.dependencies.uris),
            ("--begin-time=", &mut self.dependencies.begin_times),
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

    /// A jobspec of the command with the requested resources.
    ///
    /// # Errors
    /// [`ArgError`] for an invalid number, shape or file, and for options that exclude each other.
    fn resources(&self, caller: &Caller) -> Result<JobspecBuilder, ArgError> {
        let mut builder = JobspecBuilder::new(&self.command);
        let per_task = [&self.ntasks, &self.cores_per_task, &self.gpus_per_task];
        let per_task = per_task.into_iter().any(Option::is_some);
        if let Some((option, shape)) = self.per_resource.shape(caller)? {
            if per_task || self.nodes.is_some() || self.exclusive || self.per_resource.any_count() {
                return Err(ArgError::ShapeAndCounts(option));
            }
            builder = builder.shape(shape);
        } else {
            if per_task && self.per_resource.any_count() {
                return Err(ArgError::PerResourceAndTask);
            }
            builder = self.tasks(builder.exclusive(self.exclusive))?;
            builder = self.per_resource.add_to(builder, self.nodes.is_some())?;
            if let Some(nodes) = count("nodes", self.nodes.as_deref())? {
                builder = builder.nodes(nodes);
            }
        }
        builder.check()?;
        Ok(builder)
    }

    fn tasks(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        // As in Flux, a 0 counts as not given for these two.
        let unless_zero = |option, text: &Option<String>| {
            count(option, text.as_deref().filter(|text| text.trim().parse() != Ok(0)))
        };
        if let Some(ntasks) = unless_zero("ntasks", &self.ntasks)? {
            builder = builder.ntasks(ntasks);
        }
        if let Some(cores) = unless_zero("cores-per-task", &self.cores_per_task)? {
            builder = builder.cores_per_task(cores);
        }
        if let Some(gpus) = self.gpus_per_task.as_deref() {
            if gpus.starts_with('-') && gpus.parse::<i64>().is_ok() {
                let text = "gpus per task must be an integer >= 0";
                return Err(JobspecError::Request(text.to_owned()).into());
            }
            builder = builder.gpus_per_task(count("gpus-per-task", Some(gpus))?.unwrap_or(0));
        }
        Ok(builder)
    }

    /// The jobspec for these options. Only the options are checked: the manager validates the jobspec.
    ///
    /// # Errors
    /// [`ArgError`], with the text for the user.
    pub(crate) fn jobspec(&self, caller: &Caller) -> Result<Value, ArgError> {
        let mut builder = self.resources(caller)?;
        if let Some(limit) = &self.time_limit {
            builder = builder.duration(time_limit(limit)?);
        }
        // In Flux's order, which people see in raw output.
        let env = self.variables(caller)?;
        builder = builder.environment(env.variables);
        let cwd = self.cwd.as_deref().map_or_else(|| caller.cwd.clone(), |cwd| caller.file(cwd));
        builder = builder.cwd(&cwd.to_string_lossy());
        if let Some(name) = &self.job_name {
            builder = builder.name(name);
        }
        if !env.expand.is_empty() {
            builder = builder.shell_option("env-expand", json!(env.expand))?;
        }
        builder = self.io(builder)?;
        if let Some(queue) = &self.queue {
            builder = builder.queue(queue);
        }
        if let Some(bank) = &self.bank {
            builder = builder.attribute("bank", json!(bank))?;
        }
        builder = self.shell(builder, caller)?;
        for dependency in self.dependencies.dependencies(caller.now)? {
            builder = builder.dependency(dependency);
        }
        if !self.requires.is_empty() {
            builder = builder.attribute("constraints", self.constraint()?.to_value())?;
        }
        // After the other options, so that --setattr overrides what they set.
        for setting in &self.setattr {
            builder = setattr::set_attribute(builder, setting, caller)?;
        }
        if !self.add_file.is_empty() {
            let files = files::files(&self.add_file, caller)?;
            builder = builder.attribute("files", files.into())?;
        }
        Ok(builder.to_value())
    }

    /// The conjunction of all `--requires`. Each is parsed separately, so that an `or` in one of them doesn't
    /// apply to the others.
    fn constraint(&self) -> Result<Constraint, ArgError> {
        self.requires.iter().try_fold(Constraint::Always, |all, query| {
            let one = Constraint::from_query(query).map_err(|error| match error {
                QueryError::Term { fault: ConstraintFault::Operator(operator), .. } => {
                    ArgError::ConstraintOperator(operator)
                }
                error => ArgError::Requires { query: query.clone(), error: error.into() },
            })?;
            Ok(all.and(one))
        })
    }

    /// The variables of the job's environment.
    fn variables(&self, caller: &Caller) -> Result<Environment, ArgError> {
        let mut env = env::apply(&self.env.0, caller)?;
        if let Some(id) = &self.copy {
            for name in ["FLUX_JOB_CC", "JOBTAP_JOB_CC"] {
                env.variables.insert(name.to_owned(), id.clone());
            }
        }
        Ok(env)
    }

    fn io(&self, mut builder: JobspecBuilder) -> Result<JobspecBuilder, ArgError> {
        let streams = [
            ("input.stdin", &self.input),
            ("output.stdout", &self.output),
            ("output.stderr", &self.error),
        ];
        for (stream, path) in streams {
            let Some(path) = path else { continue };
            // With these two, as without a file, the output stays in the store of the instance.
            if stream != "input.stdin" && ["none", "kvs"].contains(&path.as_str()) {
                continue;
            }
            if stream == "input.stdin" && is_task_set(path) {
                return Err(ArgError::PerTaskInput);
            }
            builder = builder.shell_option(&format!("{stream}.type"), json!("file"))?;
            builder = builder.shell_option(&format!("{stream}.path"), json!(path))?;
            if self.label_io && stream != "input.stdin" {
                builder = builder.shell_option(&format!("{stream}.label"), json!(true))?;
            }
        }
        if let Some(path) = &self.output_pack {
            builder = builder.shell_option("output.stdout.type", json!("pack"))?;
            builder = builder.shell_option("output.stdout.path", json!(path))?;
        }
        if self.unbuffered {
            builder = builder
                .shell_option("output.stdout.buffer.type", json!("none"))?
                .shell_option("output.stderr.buffer.type", json!("none"))?
                .shell_option("input.batch-timeout", json!(0))?
                .shell_option("output.batch-timeout", json!(0.05))?;
        }
        Ok(builder)
    }

    fn shell(
        &self,
        mut builder: JobspecBuilder,
        caller: &Caller,
    ) -> Result<JobspecBuilder, ArgError> {
        let rlimits = rlimit::apply(&self.rlimit, &caller.rlimits)?;
        if !rlimits.is_empty() {
            builder = builder.shell_option("rlimit", rlimit::to_value(&rlimits))?;
        }
        if let Some(text) = self.signal.as_ref().filter(|text| !text.is_empty()) {
            builder = builder.shell_option("signal", warning(text)?)?;
        }
        if let Some(text) = &self.taskmap {
            builder = builder.shell_option("taskmap", taskmap(text)?)?;
        }
        for setting in &self.setopt {
            builder = setattr::set_option(builder, setting, caller)?;
        }
        Ok(builder)
    }

    /// The urgency of the request. The manager checks its range, so that the message is the same for all ways
    /// to submit a job.
    ///
    /// # Errors
    /// [`ArgError::Urgency`] if the text is neither a number nor a name.
    pub(crate) fn urgency(&self) -> Result<i64, ArgError> {
        let known = match self.urgency.as_deref() {
            None | Some("default") => Urgency::DEFAULT,
            Some("hold") => Urgency::HOLD,
            Some("expedite") => Urgency::EXPEDITE,
            Some(text) => {
                return text.trim().parse().map_err(|_| ArgError::Urgency(text.to_owned()));
            }
        };
        Ok(known.value().into())
    }

    /// The flags of the request.
    ///
    /// # Errors
    /// [`ArgError::Flag`] for an unknown flag.
    pub(crate) fn job_flags(&self) -> Result<Flags, ArgError> {
        let mut words = self.flags.iter().flat_map(|list| list.split(','));
        words.try_fold(Flags::NONE, |flags, word| {
            // An empty word would parse as no flags.
            let flag = word.parse::<Flags>().ok().filter(|_| !word.is_empty());
            let flag = flag.ok_or_else(|| ArgError::Flag(word.to_owned()))?;
            Ok(flags | flag)
        })
    }

    /// Messages about deprecated options, for standard error.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let schemes =
            self.dependencies.uris.iter().map(|uri| uri.split(':').next().unwrap_or_default());
        schemes
            .filter(|scheme| scheme.eq_ignore_ascii_case("after"))
            .map(|_| "dependency scheme 'after' is deprecated, use 'afterstart'")
            .collect()
    }
}
