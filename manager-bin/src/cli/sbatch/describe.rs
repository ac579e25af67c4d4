//! The options as Slurm's description of a request.

use jiff::tz::TimeZone;
use jobtap_core::resource::Hostlist;
use jobtap_core::slurm::{
    self, GRES_DISABLE_BIND, GRES_ENFORCE_BIND, JOB_NTASKS_SET, JobDescriptor, KILL_INV_DEP,
    NO_KILL_INV_DEP, SPREAD_JOB, USE_DEFAULT_ACCT, USE_DEFAULT_PART, USE_DEFAULT_QOS,
    USE_DEFAULT_WCKEY, USE_MIN_NODES, check_tres, minutes_of,
};

use super::begin::{self, Toward};
use super::error::{HostsError, RequestError, ValueError};
use super::options::Setting;
use crate::cli::common::indexes::Indexes;
use crate::cli::submit::caller::Caller;
use crate::files::input;

/// A request, and what the command does with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub(super) desc: JobDescriptor,
    pub(super) array: Option<Indexes>,
    /// `--export`.
    pub(super) export: Option<String>,
    pub(super) export_file: Option<String>,
    /// The command of `--wrap`.
    pub(super) wrap: Option<String>,
    pub(super) test_only: bool,
    pub(super) parsable: bool,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
    pub(super) wait: bool,
    /// Variables that tell the script which options are set.
    pub(super) told: Vec<(&'static str, String)>,
    /// Messages for the user.
    pub(super) warnings: Vec<String>,
    /// The rules that select which of the caller's resource limits the job inherits; see
    /// [`rlimit`](crate::cli::submit::rlimit).
    pub(super) rlimits: Vec<String>,
    /// The options that have no effect.
    pub(super) ignored: Vec<&'static str>,
    /// The file that describes a burst buffer.
    pub(super) burst_buffer_file: Option<String>,
    /// The file that names the hosts.
    pub(super) host_file: Option<String>,
    /// The number of tasks, if it was given.
    pub(super) tasks: Option<u32>,
    /// The minimum and the maximum number of nodes, if they were given.
    pub(super) nodes: Option<(u32, u32)>,
}

// The bit with which sbatch reports that the CPUs of a task were given.
const JOB_CPUS_SET: u64 = 1 << 15;

/// The bits of `--mail-type` by their words.
const MAIL: &[(&str, u16)] = &[
    ("NONE", 0),
    ("BEGIN", slurm::MAIL_JOB_BEGIN),
    ("END", slurm::MAIL_JOB_END),
    ("FAIL", slurm::MAIL_JOB_FAIL),
    ("REQUEUE", slurm::MAIL_JOB_REQUEUE),
    ("STAGE_OUT", slurm::MAIL_JOB_STAGE_OUT),
    ("INVALID_DEPEND", slurm::MAIL_INVALID_DEPEND),
    ("TIME_LIMIT", slurm::MAIL_JOB_TIME100),
    ("TIME_LIMIT_90", slurm::MAIL_JOB_TIME90),
    ("TIME_LIMIT_80", slurm::MAIL_JOB_TIME80),
    ("TIME_LIMIT_50", slurm::MAIL_JOB_TIME50),
    ("ARRAY_TASKS", slurm::MAIL_ARRAY_TASKS),
    (
        "ALL",
        slurm::MAIL_JOB_BEGIN
            | slurm::MAIL_JOB_END
            | slurm::MAIL_JOB_FAIL
            | slurm::MAIL_JOB_REQUEUE
            | slurm::MAIL_JOB_STAGE_OUT
            | slurm::MAIL_INVALID_DEPEND,
    ),
];

impl Request {
    /// Applies the settings in order, so that the last setting of an option counts.
    ///
    /// # Errors
    /// [`RequestError`], with the setting.
    pub(super) fn from_settings(
        settings: &[Setting],
        caller: &Caller,
    ) -> Result<Self, RequestError> {
        let mut request = Self::default();
        for setting in settings {
            let applied = request.apply(setting.name, &setting.value, caller);
            applied
                .map_err(|fault| RequestError::Setting { origin: setting.origin.clone(), fault })?;
        }
        request.finish()?;
        Ok(request)
    }

    fn apply(
        &mut self,
        name: &'static str,
        value: &str,
        caller: &Caller,
    ) -> Result<(), ValueError> {
        let desc = &mut self.desc;
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match name {
            "account" => self.tell("SLURM_JOB_ACCOUNT", value).account = text(),
            "acctg-freq" => desc.acctg_freq = text(),
            "array" => {
                self.array = Some(Indexes::parse(value)?);
                desc.array_inx = text();
            }
            "batch" => desc.batch_features = text(),
            "bb" => desc.burst_buffer = text(),
            "bbf" => self.burst_buffer_file = text(),
            "begin" => desc.begin_time = Some(time(value, caller)?),
            "chdir" => desc.work_dir = Some(caller.file(value).to_string_lossy().into_owned()),
            "cluster-constraint" => desc.cluster_features = text(),
            "clusters" => desc.clusters = text(),
            "comment" => desc.comment = text(),
            "constraint" => desc.features = text(),
            "container" => desc.container = text(),
            "contiguous" => desc.contiguous = 1,
            "core-spec" => desc.set("core_spec", u32::from(number::<u16>(value)?).into())?,
            "cores-per-socket" => desc.cores_per_socket = Some(number(value)?),
            "cpu-freq" => cpu_frequency(desc, value)?,
            "cpus-per-gpu" => {
                desc.cpus_per_tres = Some(format!("gres:gpu:{}", positive::<u32>(value)?))
            }
            "cpus-per-task" => {
                let cpus = positive(value)?;
                self.tell("SLURM_CPUS_PER_TASK", value).cpus_per_task = Some(cpus);
            }
            "deadline" => desc.deadline = Some(time(value, caller)?),
            "delay-boot" => desc.delay_boot = Some(minutes(value)?.saturating_mul(60)),
            "dependency" => desc.dependency = text(),
            "distribution" => self.tell("SLURM_DISTRIBUTION", value).distribution = text(),
            "error" => desc.std_err = file(value),
            "exclude" => desc.exc_nodes = Some(hosts(value)?.to_string()),
            "exclusive" => desc.shared = Some(exclusive(value)?),
            "export" => self.export = text(),
            "export-file" => self.export_file = text(),
            "extra" => desc.extra = text(),
            "extra-node-info" => extra_node_info(desc, value)?,
            "gpu-bind" => desc.tres_bind = text().map(|value| format!("gpu:{value}")),
            "gpu-freq" => desc.tres_freq = text().map(|value| format!("gpu:{value}")),
            "gpus" => self.tell("SLURM_GPUS", value).tres_per_job = Some(gpus(value)?),
            "gpus-per-node" => {
                self.tell("SLURM_GPUS_PER_NODE", value).tres_per_node = Some(gpus(value)?)
            }
            "gpus-per-socket" => desc.tres_per_socket = Some(gpus(value)?),
            "gpus-per-task" => {
                self.tell("SLURM_GPUS_PER_TASK", value).tres_per_task = Some(gpus(value)?)
            }
            "gres" => {
                let list = if value == "none" { "" } else { value };
                check_tres(list)?;
                desc.set("gres", list.into())?;
            }
            "gres-flags" => desc.bitflags |= gres_flags(value)?,
            "hold" => desc.priority = Some(0),
            "input" => desc.std_in = file(value),
            "job-name" => desc.name = text(),
            "kill-on-invalid-dep" => kill_on_invalid_dependency(desc, value)?,
            "licenses" => desc.licenses = text(),
            "mail-type" => desc.mail_type = mail_types(value)?,
            "mail-user" => desc.mail_user = text(),
            "mcs-label" => desc.mcs_label = text(),
            "mem" => {
                let size = mebibytes(value)?;
                self.tell("SLURM_MEM_PER_NODE", &size.to_string()).set_mem_per_node(Some(size));
            }
            "mem-bind" => desc.mem_bind = text(),
            "mem-per-cpu" => {
                let size = mebibytes(value)?;
                self.tell("SLURM_MEM_PER_CPU", &size.to_string()).set_mem_per_cpu(Some(size));
            }
            "mem-per-gpu" => desc.mem_per_tres = Some(format!("gres:gpu:{}", mebibytes(value)?)),
            "mincpus" => desc.pn_min_cpus = Some(number(value)?),
            "network" => desc.network = text(),
            "nice" => desc.set_nice_value(Some(signed(value)?)),
            "no-kill" => desc.kill_on_node_fail = Some(u16::from(value == "off")),
            "no-requeue" => desc.requeue = Some(0),
            "nodefile" => self.host_file = text(),
            "nodelist" => match value.contains('/') {
                true => self.host_file = text(),
                false => desc.req_nodes = Some(hosts(value)?.to_string()),
            },
            "nodes" => self.nodes = Some(least_and_most(value)?),
            "ntasks" => self.tasks = Some(positive(value)?),
            "ntasks-per-core" => desc.ntasks_per_core = Some(positive(value)?),
            "ntasks-per-gpu" => desc.ntasks_per_tres = Some(positive(value)?),
            "ntasks-per-node" => {
                let tasks = positive(value)?;
                self.tell("SLURM_NTASKS_PER_NODE", value).ntasks_per_node = Some(tasks);
            }
            "ntasks-per-socket" => desc.ntasks_per_socket = Some(positive(value)?),
            "open-mode" => desc.open_mode = open_mode(value)?,
            "output" => desc.std_out = file(value),
            "overcommit" => self.tell("SLURM_OVERCOMMIT", "1").overcommit = Some(1),
            "oversubscribe" => desc.shared = Some(slurm::JOB_SHARED_OK),
            "parsable" => self.parsable = true,
            "partition" => self.tell("SLURM_JOB_PARTITION", value).partition = text(),
            "prefer" => desc.prefer = text(),
            "priority" => {
                let top = value.eq_ignore_ascii_case("top");
                desc.priority = Some(if top { slurm::TOP_PRIORITY } else { number(value)? });
            }
            "qos" => self.tell("SLURM_JOB_QOS", value).qos = text(),
            "quiet" => self.quiet = true,
            "reboot" => desc.reboot = Some(1),
            "requeue" => desc.requeue = Some(1),
            "reservation" => self.tell("SLURM_JOB_RESERVATION", value).reservation = text(),
            "segment" => desc.segment_size = Some(positive(value)?),
            "signal" => signal(desc, value)?,
            "sockets-per-node" => desc.sockets_per_node = Some(positive(value)?),
            "spread-job" => desc.bitflags |= SPREAD_JOB,
            "switches" => switches(desc, value)?,
            "test-only" => self.test_only = true,
            "thread-spec" => desc.set("thread_spec", u32::from(number::<u16>(value)?).into())?,
            "threads-per-core" => desc.threads_per_core = Some(positive(value)?),
            "time" => {
                let limit = minutes(value)?;
                // As in Slurm, a limit of zero means no limit.
                desc.time_limit = Some(if limit == 0 { slurm::INFINITE } else { limit });
            }
            "time-min" => desc.time_min = Some(minutes(value)?),
            "tmp" => {
                let size = u32::try_from(mebibytes(value)?);
                let large = |_| ValueError::TooLarge(value.to_owned());
                desc.pn_min_tmp_disk = Some(size.map_err(large)?);
            }
            "tres-bind" => desc.tres_bind = text(),
            "use-min-nodes" => desc.bitflags |= USE_MIN_NODES,
            "verbose" => self.verbose = true,
            "wait" => self.wait = true,
            "wait-all-nodes" => desc.wait_all_nodes = Some(number(value)?),
            "wckey" => desc.wckey = text(),
            "wrap" => self.wrap = Some(value.to_owned()),
            "propagate" => self.rlimits = propagated(value)?,
            // Plugins see these options, but no part of the manager acts on them.
            "hint" => {
                hint(desc, value)?;
                self.ignore(name);
            }
            "power" => {
                if value != "level" {
                    return Err(unknown("flag", value, "level"));
                }
                desc.set("power_flags", 1_u32.into())?;
                self.ignore(name);
            }
            // Of srun, where nothing would differ.
            "bcast" | "compress" | "immediate" | "send-libs" | "threads" => self.ignore(name),
            "consolidate-segments"
            | "get-user-env"
            | "oom-kill-step"
            | "profile"
            | "spread-segments" => self.ignore(name),
            // Options that other parts of the command read, and one that asks for what is always the case.
            _ => {}
        }
        Ok(())
    }

    /// Notes that an option has no effect.
    fn ignore(&mut self, name: &'static str) {
        if !self.ignored.contains(&name) {
            self.ignored.push(name);
        }
    }

    /// Sets a variable for the script. Returns the description, for the option that sets the variable.
    fn tell(&mut self, variable: &'static str, value: &str) -> &mut JobDescriptor {
        self.told.retain(|(told, _)| *told != variable);
        self.told.push((variable, value.to_owned()));
        &mut self.desc
    }

    /// Derives the remaining fields from the options, as Slurm does.
    fn finish(&mut self) -> Result<(), RequestError> {
        if !self.ignored.is_empty() {
            let names: Vec<String> = self.ignored.iter().map(|name| format!("--{name}")).collect();
            let have = if names.len() == 1 { "has" } else { "have" };
            let names = names.join(", ");
            self.warnings.push(format!("warning: {names} {have} no effect here"));
        }
        if let Some(file) = self.host_file.take() {
            let text = read(file)?;
            let words: Vec<&str> =
                text.split([',', '\n', ' ', '\t']).filter(|word| !word.is_empty()).collect();
            self.desc.req_nodes = Some(hosts(&words.join(","))?.to_string());
        }
        if let Some(file) = self.burst_buffer_file.take() {
            self.desc.burst_buffer = Some(read(file)?);
        }
        let desc = &mut self.desc;
        let named = desc.req_nodes.as_deref().and_then(|list| list.parse::<Hostlist>().ok());
        let named =
            named.and_then(|hosts| u32::try_from(hosts.len()).ok()).filter(|count| *count > 0);
        let per_node = desc.ntasks_per_node.map(u32::from);
        let mut nodes = self.nodes.map(|(least, most)| (least, Some(most)));
        nodes = nodes.or(named.map(|count| (count, None)));
        // The number of tasks follows from the nodes only if the number of nodes is fixed.
        let fixed = |(least, most): (u32, Option<u32>)| most.is_none_or(|most| most == least);
        let nodes_of_tasks = nodes.filter(|nodes| fixed(*nodes)).map(|(least, _)| least);
        let product = |nodes: u32| nodes.saturating_mul(per_node?).into();
        let tasks = self.tasks.or(nodes_of_tasks.and_then(product));
        if let (Some((least, most)), Some(tasks)) = (nodes, self.tasks)
            && tasks < least
            && self.nodes.is_some()
        {
            let text = format!("can't run {tasks} processes on {least} nodes");
            self.warnings.push(format!("warning: {text}, setting nnodes to {tasks}"));
            nodes = Some((tasks, most.map(|most| most.min(tasks))));
        }
        desc.min_nodes = nodes.map(|(least, _)| least);
        desc.max_nodes = nodes.and_then(|(_, most)| most);
        desc.num_tasks = self.tasks;
        for (flag, holds) in [
            (JOB_NTASKS_SET, self.tasks.is_some()),
            (JOB_CPUS_SET, desc.cpus_per_task.is_some()),
            (USE_DEFAULT_ACCT, desc.account.is_none()),
            (USE_DEFAULT_PART, desc.partition.is_none()),
            (USE_DEFAULT_QOS, desc.qos.is_none()),
            (USE_DEFAULT_WCKEY, desc.wckey.is_none()),
        ] {
            desc.bitflags |= if holds { flag } else { 0 };
        }
        desc.pn_min_cpus = desc.pn_min_cpus.or(desc.cpus_per_task);
        let of_nodes = nodes_of_tasks.map(|nodes| nodes.max(1));
        // Without a number of nodes, the job is one node with these tasks.
        let of_one_node = per_node.filter(|_| nodes.is_none());
        let tasks = tasks.or(of_nodes).or(of_one_node).unwrap_or(1);
        desc.min_cpus = Some(match desc.overcommit {
            Some(1) => desc.min_nodes.unwrap_or(1).max(1),
            _ => tasks.saturating_mul(desc.cpus_per_task.unwrap_or(1).into()),
        });
        // Those of its GPUs, which `min_cpus` doesn't have.
        let of_gpus = || {
            let count = |list: &Option<String>| -> Option<u16> {
                list.as_deref()?.rsplit(':').next()?.parse().ok()
            };
            count(&desc.cpus_per_tres)?.checked_mul(count(&desc.tres_per_task)?)
        };
        desc.cpus_per_task = desc.cpus_per_task.or_else(of_gpus);
        Ok(())
    }
}

/// The text of a file that an option names.
fn read(file: String) -> Result<String, RequestError> {
    input::text(&file).map_err(|reason| RequestError::File { file, reason })
}

/// The name of a file for a stream; `none` means no file.
fn file(name: &str) -> Option<String> {
    let name = if name.eq_ignore_ascii_case("none") { "/dev/null" } else { name };
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Refuses a word that isn't one of the `known` words.
fn unknown(what: &'static str, word: &str, known: &str) -> ValueError {
    ValueError::Word { what, word: word.to_owned(), known: known.to_owned() }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, ValueError> {
    text.trim().parse().map_err(|_| ValueError::Number(text.to_owned()))
}

fn positive<T: std::str::FromStr + Default + PartialEq>(text: &str) -> Result<T, ValueError> {
    match number(text) {
        Ok(number) if number == T::default() => Err(ValueError::NotPositive),
        other => other,
    }
}

fn signed(text: &str) -> Result<i64, ValueError> {
    let text = text.trim();
    number(text.strip_prefix('+').unwrap_or(text))
}

fn minutes(text: &str) -> Result<u32, ValueError> {
    minutes_of(text).ok_or_else(|| ValueError::Duration(text.to_owned()))
}

fn time(text: &str, caller: &Caller) -> Result<u64, ValueError> {
    let time = begin::parse(text, caller.now, &TimeZone::system(), Toward::Future);
    time.ok_or_else(|| ValueError::Time(text.to_owned()))
}

/// A size in MiB, rounded up.
fn mebibytes(text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::Size(text.to_owned());
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper.strip_suffix('B').filter(|rest| !rest.is_empty()).unwrap_or(&upper);
    let end = upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len());
    let (count, unit) = upper.split_at_checked(end).ok_or_else(wrong)?;
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let size = match unit {
        "" | "M" => Some(count),
        "K" => Some(count.div_ceil(1024)),
        "G" => count.checked_mul(1024),
        "T" => count.checked_mul(1024 * 1024),
        _ => None,
    };
    // The highest bit of the field says whether the memory is per CPU or per node.
    size.filter(|size| *size < 1 << 60).ok_or_else(wrong)
}

/// A number of GPUs, or several of types: `2`, `a100:2`, `a100:1,h100:1`.
fn gpus(text: &str) -> Result<String, ValueError> {
    let one = |entry: &str| {
        let count = entry.rsplit_once(':').map_or(entry, |(_, count)| count);
        number::<u32>(count)?;
        check_tres(&format!("gpu:{entry}"))?;
        Ok(format!("gres:gpu:{entry}"))
    };
    let all: Result<Vec<String>, ValueError> = text.split(',').map(one).collect();
    all.map(|all| all.join(","))
}

fn hosts(text: &str) -> Result<Hostlist, HostsError> {
    text.parse::<Hostlist>().map_err(|error| HostsError { text: text.to_owned(), error })
}

/// `--exclusive[=user|mcs]`.
fn exclusive(value: &str) -> Result<u16, ValueError> {
    match value {
        "" | "exclusive" => Ok(slurm::JOB_SHARED_NONE),
        "user" => Ok(slurm::JOB_SHARED_USER),
        "mcs" => Ok(slurm::JOB_SHARED_MCS),
        other => Err(unknown("value", other, "user, mcs or none")),
    }
}

/// `SOCKETS[:CORES[:THREADS]]`.
fn extra_node_info(desc: &mut JobDescriptor, value: &str) -> Result<(), ValueError> {
    let parts: Result<Vec<u16>, ValueError> = value.split(':').map(positive).collect();
    let parts = parts?;
    if parts.len() > 3 {
        return Err(ValueError::MoreThanThree);
    }
    let part = |index: usize| parts.get(index).copied();
    desc.sockets_per_node = part(0);
    desc.cores_per_socket = part(1).or(desc.cores_per_socket);
    desc.threads_per_core = part(2).or(desc.threads_per_core);
    Ok(())
}

fn gres_flags(value: &str) -> Result<u64, ValueError> {
    value.split(',').try_fold(0, |flags, flag| match flag {
        "enforce-binding" => Ok(flags | GRES_ENFORCE_BIND),
        "disable-binding" => Ok(flags | GRES_DISABLE_BIND),
        other => Err(ValueError::UnlistedWord { what: "flag", word: other.to_owned() }),
    })
}

fn kill_on_invalid_dependency(desc: &mut JobDescriptor, value: &str) -> Result<(), ValueError> {
    desc.bitflags &= !(KILL_INV_DEP | NO_KILL_INV_DEP);
    desc.bitflags |= match value {
        "yes" => KILL_INV_DEP,
        "no" => NO_KILL_INV_DEP,
        other => {
            let word = other.to_owned();
            return Err(ValueError::Neither { word, one: "yes", other: "no" });
        }
    };
    Ok(())
}

fn mail_types(value: &str) -> Result<u16, ValueError> {
    value.split(',').try_fold(0, |types, word| {
        let word = word.trim().to_ascii_uppercase();
        match MAIL.iter().find(|(name, _)| *name == word) {
            Some((_, bits)) => Ok(types | bits),
            None => {
                let words: Vec<&str> = MAIL.iter().map(|(name, _)| *name).collect();
                Err(unknown("type", &word, &words.join(", ")))
            }
        }
    })
}

/// `LEAST[-MOST]`: numbers of nodes.
fn least_and_most(value: &str) -> Result<(u32, u32), ValueError> {
    let (least, most) = match value.split_once('-') {
        Some((least, most)) => (positive(least)?, positive(most)?),
        None => (positive(value)?, positive(value)?),
    };
    match most < least {
        true => Err(ValueError::Range { least, most }),
        false => Ok((least, most)),
    }
}

fn open_mode(value: &str) -> Result<u8, ValueError> {
    match value {
        "t" | "truncate" => Ok(1),
        "a" | "append" => Ok(2),
        other => {
            let word = other.to_owned();
            Err(ValueError::Neither { word, one: "append", other: "truncate" })
        }
    }
}

/// `COUNT[@LONGEST_WAIT]`.
fn switches(desc: &mut JobDescriptor, value: &str) -> Result<(), ValueError> {
    let (count, wait) = match value.split_once('@') {
        Some((count, wait)) => (count, Some(minutes(wait)?.saturating_mul(60))),
        None => (value, None),
    };
    desc.req_switch = Some(number(count)?);
    desc.wait4switch = wait;
    Ok(())
}

/// `[R][B:]SIGNAL[@SECONDS]`
fn signal(desc: &mut JobDescriptor, text: &str) -> Result<(), ValueError> {
    const BATCH: u16 = 1;
    const RESERVATION: u16 = 2;
    let (flags, rest) = match text.split_once(':') {
        Some(("B" | "b", rest)) => (BATCH, rest),
        Some(("R" | "r", rest)) => (RESERVATION, rest),
        Some(("RB" | "BR" | "rb" | "br", rest)) => (BATCH | RESERVATION, rest),
        Some((other, _)) => return Err(unknown("flag", other, "B or R")),
        None => (0, text),
    };
    let (name, seconds) = match rest.split_once('@') {
        Some((name, seconds)) => (name, number::<u16>(seconds)?),
        None => (rest, 60),
    };
    let no_signal = |_| ValueError::UnlistedWord { what: "signal", word: name.to_owned() };
    let signal: jobtap_core::job::Signal = name.parse().map_err(no_signal)?;
    desc.warn_signal = u16::try_from(signal.number()).ok();
    desc.warn_time = Some(seconds);
    desc.warn_flags = flags;
    Ok(())
}

/// `MIN[-MAX][:GOVERNOR]` in kHz, with words that Slurm stores as numbers, or a governor alone.
fn cpu_frequency(desc: &mut JobDescriptor, text: &str) -> Result<(), ValueError> {
    const GOVERNORS: [(&str, u32); 6] = [
        ("conservative", 0x8800_0000),
        ("ondemand", 0x8400_0000),
        ("performance", 0x8200_0000),
        ("powersave", 0x8100_0000),
        ("userspace", 0x8080_0000),
        ("schedutil", 0x8040_0000),
    ];
    let governor = |text: &str| {
        let known = GOVERNORS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        known.map(|(_, number)| *number)
    };
    let (range, named) = text.split_once(':').map_or((text, None), |(range, of)| (range, Some(of)));
    if let (Some(alone), None) = (governor(range), named) {
        desc.cpu_freq_gov = Some(alone);
        return Ok(());
    }
    if let Some(named) = named {
        let names = || GOVERNORS.map(|(name, _)| name).join(", ");
        let number = governor(named).ok_or_else(|| unknown("governor", named, &names()))?;
        desc.cpu_freq_gov = Some(number);
    }
    let frequency = |text: &str| match text.to_ascii_lowercase().as_str() {
        "low" => Ok(0x8000_0001),
        "medium" => Ok(0x8000_0002),
        "high" => Ok(0x8000_0003),
        "highm1" => Ok(0x8000_0004),
        other => number(other),
    };
    match range.split_once('-') {
        Some((least, most)) => {
            desc.cpu_freq_min = Some(frequency(least)?);
            desc.cpu_freq_max = Some(frequency(most)?);
        }
        None => desc.cpu_freq_max = Some(frequency(range)?),
    }
    Ok(())
}

/// `--hint`: sets the fields that the hint stands for.
fn hint(desc: &mut JobDescriptor, value: &str) -> Result<(), ValueError> {
    match value {
        "compute_bound" | "nomultithread" => desc.threads_per_core = Some(1),
        "memory_bound" => {
            desc.cores_per_socket = Some(1);
            desc.threads_per_core = Some(1);
        }
        // Slurm's number for no limit.
        "multithread" => desc.ntasks_per_core = Some(u16::MAX),
        other => {
            let all = "compute_bound, memory_bound, multithread or nomultithread";
            return Err(unknown("hint", other, all));
        }
    }
    Ok(())
}

/// The limits that `--propagate` names.
const LIMITS: [&str; 10] =
    ["AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"];

/// `--propagate`, as rules for resource limits: only the limits that it names.
fn propagated(value: &str) -> Result<Vec<String>, ValueError> {
    let mut rules = vec!["-*".to_owned()];
    for word in value.split(',').map(|word| word.trim().to_ascii_uppercase()) {
        match word.as_str() {
            "" | "ALL" => rules.extend(LIMITS.map(str::to_ascii_lowercase)),
            "NONE" => rules.truncate(1),
            name if LIMITS.contains(&name) => rules.push(name.to_ascii_lowercase()),
            _ => {
                let known = format!("ALL, NONE or {}", LIMITS.join(", "));
                return Err(unknown("limit", &word, &known));
            }
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::super::error::Place;
    use super::super::options::parse;
    use super::*;

    fn request(options: &str) -> Result<Request, RequestError> {
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        let (settings, rest) = parse(&words, &Place::CommandLine).unwrap();
        assert!(rest.is_empty());
        let caller = Caller { cwd: "/home/a".into(), now: 1e9, ..Caller::default() };
        Request::from_settings(&settings, &caller)
    }

    fn desc(options: &str) -> JobDescriptor {
        request(options).unwrap().desc
    }

    fn refused(options: &str) -> String {
        request(options).unwrap_err().to_string()
    }

    #[test]
    fn sizes_follow_from_each_other_as_in_slurm() {
        let sizes = |options: &str| {
            let desc = desc(options).shown_in(slurm::Release::V22_05);
            (desc.min_nodes, desc.max_nodes, desc.num_tasks, desc.min_cpus)
        };
        // As slurmctld 22.05.8 received them from its own sbatch.
        assert_eq!(sizes(""), (None, None, None, Some(1)));
        assert_eq!(sizes("-n4"), (None, None, Some(4), Some(4)));
        assert_eq!(sizes("-n2 -c3"), (None, None, Some(2), Some(6)));
        assert_eq!(sizes("-N2"), (Some(2), Some(2), None, Some(2)));
        assert_eq!(sizes("-N2-9"), (Some(2), Some(9), None, Some(1)));
        assert_eq!(sizes("-N2-9 --ntasks-per-node=4"), (Some(2), Some(9), None, Some(1)));
        assert_eq!(sizes("--ntasks-per-node=4 -c2"), (None, None, None, Some(8)));
        assert_eq!(sizes("-N2 -n8 -O"), (Some(2), Some(2), Some(8), Some(2)));
        assert_eq!(sizes("-N2-4 -n8"), (Some(2), Some(4), Some(8), Some(8)));
        assert_eq!(sizes("-N2 --ntasks-per-node=4"), (Some(2), Some(2), Some(8), Some(8)));
        assert_eq!(sizes("-n8 --ntasks-per-node=4"), (None, None, Some(8), Some(8)));
        assert_eq!(sizes("-w n[1-3]"), (Some(3), None, None, Some(3)));
        assert_eq!(sizes("-N4 -n2"), (Some(2), Some(2), Some(2), Some(2)));
        assert_eq!(request("-N4 -n2").unwrap().warnings.len(), 1);
    }

    #[test]
    fn the_cpus_of_a_task_follow_from_those_of_its_gpus() {
        let cpus = |options: &str| {
            let desc = desc(options);
            (desc.cpus_per_task, desc.shown_in(slurm::Release::V26_05).min_cpus)
        };
        assert_eq!(cpus("-n3 --cpus-per-gpu=3 --gpus-per-task=2"), (Some(6), Some(18)));
        assert_eq!(cpus("-n3 --cpus-per-gpu=3 --gpus-per-task=a100:2"), (Some(6), Some(18)));
        assert_eq!(cpus("-n3 --cpus-per-gpu=3 --gpus=2"), (None, Some(6)));
        assert_eq!(cpus("-n3 --gpus-per-task=2"), (None, Some(3)));
    }

    #[test]
    fn frequencies_and_governors_are_numbers_as_in_slurm() {
        let frequency = |value: &str| {
            let desc = desc(&format!("--cpu-freq={value}"));
            (desc.cpu_freq_min, desc.cpu_freq_max, desc.cpu_freq_gov)
        };
        let ondemand = Some(2_214_592_512);
        let (medium, high) = (Some(0x8000_0002), Some(0x8000_0003));
        assert_eq!(frequency("medium-high:ondemand"), (medium, high, ondemand));
        assert_eq!(frequency("OnDemand"), (None, None, ondemand));
        assert_eq!(frequency("1200000"), (None, Some(1_200_000), None));
        assert!(refused("--cpu-freq=high:fast").contains("fast"));
    }

    #[test]
    fn every_option_sets_its_field() {
        let text = |text: &str| Some(text.to_owned());
        let d =
            desc("-A a -p b,c -q q -J n -C x&y --comment=c -d afterok:5 -L m:2 -w n1 -x n[2-3]");
        assert_eq!((d.account, d.partition, d.qos), (text("a"), text("b,c"), text("q")));
        assert_eq!((d.name, d.features, d.comment), (text("n"), text("x&y"), text("c")));
        assert_eq!((d.dependency, d.licenses), (text("afterok:5"), text("m:2")));
        assert_eq!((d.req_nodes, d.exc_nodes), (text("n1"), text("n[2-3]")));
        let d = desc(
            "-t 1-0 --mem=4G --gres=gpu:a100:2 -G 4 --mail-type=END,FAIL --nice -H -D sub -b now+60",
        );
        let nice = d.nice_value();
        assert_eq!((d.time_limit, d.mem_per_node()), (Some(1440), Some(4096)));
        assert_eq!(
            (d.tres_per_node, d.tres_per_job),
            (text("gres:gpu:a100:2"), text("gres:gpu:4"))
        );
        assert_eq!((d.mail_type, nice, d.priority), (6, Some(100), Some(0)));
        assert_eq!((d.work_dir, d.begin_time), (text("/home/a/sub"), Some(1_000_000_060)));
        let d = desc(
            "--mem-per-cpu=1500K --signal=B:USR1@300 --open-mode=a -B 2:8 --switches=1@10 --requeue",
        );
        assert_eq!((d.mem_per_cpu(), d.open_mode, d.requeue), (Some(2), 2, Some(1)));
        assert_eq!((d.warn_signal, d.warn_time, d.warn_flags), (Some(10), Some(300), 1));
        assert_eq!((d.sockets_per_node, d.cores_per_socket), (Some(2), Some(8)));
        assert_eq!((d.req_switch, d.wait4switch), (Some(1), Some(600)));
        assert_eq!(desc("-t 0").time_limit, Some(slurm::INFINITE));
        assert_eq!(
            (desc("--exclusive=user").shared, desc("--exclusive -s").shared),
            (Some(2), Some(1))
        );
    }

    #[test]
    fn wrong_values_name_the_option_and_what_is_expected() {
        assert_eq!(refused("-n x"), "-n: invalid number 'x'");
        assert_eq!(refused("-n 0"), "-n: must be above 0");
        assert_eq!(refused("-N 4-2"), "-N: 2 is less than 4");
        assert!(refused("--time=5m").starts_with("--time: invalid time '5m': use minutes"));
        assert!(refused("--mem=4X").starts_with("--mem: invalid size '4X'"));
        assert!(refused("--mail-type=NEVER").starts_with("--mail-type: unknown type 'NEVER'"));
        assert!(refused("--begin=soon").starts_with("--begin: invalid time 'soon'"));
        assert!(refused("--exclusive=me").contains("'me'"));
        assert!(refused("--gpus=many").contains("'many'"));
        for option in [
            "--gres=gpu:-1",
            "--gres=gpu:99999999999999999999",
            "--gres=nic:1,gpu:2x",
            "--gres=gpu:",
            "--gpus=-1",
            "--gpus=+1",
            "--gpus-per-node=a100:-2",
            "--gpus-per-task=99999999999999999999",
            "-G a100:1:1",
        ] {
            assert!(refused(option).contains("invalid"), "{option}: {}", refused(option));
        }
        assert!(refused("--signal=NONE").contains("'NONE'"));
        assert!(refused("-w n[").contains("invalid hosts"));
        assert!(refused("-a 5-1").starts_with("-a: '5-1'"));
        assert!(refused("--mem=99999999999999999T").contains("invalid size"));
    }
}
