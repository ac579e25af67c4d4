//! What a job runs: its command or batch script, environment, files and signal.

use super::place::Group;
use super::remove;
use crate::jobspec::path;
use crate::slurm::Environment;
use crate::slurm::descriptor::JobDescriptor;
use serde_json::{Map, Value, json};

const ENV: &str = "attributes.system.environment";
const OPTIONS: &str = "attributes.system.shell.options";
const SCRIPT: &str = "attributes.system.files.script";

/// The shell that runs the batch script, whose path and arguments follow.
const SHELL: [&str; 2] = ["sh", "-c"];

/// Runs the batch script in the first task. The other tasks exit.
///
/// Slurm starts a batch script once, on the first node of the job, and a jobspec starts a command in each slot. The
/// script isn't a process of an MPI program itself, and MPI launchers that it starts must see a Slurm job: with these
/// variables, Open MPI would take itself for a Flux task, and MPICH for one of several processes.
const LAUNCH: &str = r#"[ "${FLUX_TASK_RANK:-0}" -eq 0 ] || exit 0
unset PMI_FD PMI_RANK PMI_SIZE FLUX_PMI_LIBRARY_PATH FLUX_JOB_ID FLUX_JOB_ID_PATH FLUX_JOB_SIZE FLUX_JOB_NNODES \
    FLUX_TASK_RANK FLUX_TASK_LOCAL_ID FLUX_KVS_NAMESPACE
export SLURM_TASK_PID=$$
exec "$0" "$@""#;

/// The path of the batch script, as the manager expands it.
const SCRIPT_PATH: &str = "{{tmpdir}}/script";

/// The environment. A variable that the jobspec unsets has no counterpart in Slurm and stays as it is.
pub(super) const ENVIRONMENT: Group = Group {
    fields: &[("environment", ENV)],
    read: |jobspec, desc| {
        let variables = path::get(jobspec, ENV).and_then(Value::as_object);
        let texts =
            |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        desc.environment =
            variables.into_iter().flatten().filter_map(texts).collect::<Environment>();
    },
    // The order of the variables matters.
    same: |a, b| a.environment == b.environment,
    put: |_, desc, jobspec| {
        let old = path::get(jobspec, ENV).and_then(Value::as_object).cloned().unwrap_or_default();
        let removed = old.into_iter().filter(|(_, value)| !value.is_string());
        let texts = desc.environment.iter().map(|(name, value)| (name.to_owned(), value.into()));
        let mut new: Map<String, Value> = removed.collect();
        new.extend(texts);
        if new.is_empty() {
            remove(jobspec, ENV);
            return Ok(());
        }
        path::set(jobspec, ENV, Value::Object(new))
    },
};

const STREAMS: [&str; 3] = ["input.stdin", "output.stdout", "output.stderr"];

pub(super) const FILES: Group = Group {
    fields: &[
        ("std_in", "attributes.system.shell.options.input.stdin.path"),
        ("std_out", "attributes.system.shell.options.output.stdout.path"),
        ("std_err", "attributes.system.shell.options.output.stderr.path"),
        ("open_mode", "attributes.system.shell.options.output.mode"),
    ],
    read: |jobspec, desc| {
        let option =
            |name: &str| path::get(jobspec, &format!("{OPTIONS}.{name}")).and_then(Value::as_str);
        let file = |stream: &str| {
            let path = option(&format!("{stream}.path"))?;
            Some(pattern(path)).filter(|path| !path.is_empty())
        };
        let [input, output, error] = STREAMS;
        desc.std_in = file(input);
        desc.std_out = file(output).filter(|path| !is_default_output(path));
        desc.std_err = file(error);
        desc.open_mode = match option("output.mode") {
            Some("append") => APPEND,
            Some("truncate") => TRUNCATE,
            _ => 0,
        };
    },
    same: |a, b| paths(a) == paths(b) && mode(a) == mode(b),
    put: |_, desc, jobspec| {
        for (stream, file) in STREAMS.into_iter().zip(paths(desc)) {
            let place = format!("{OPTIONS}.{stream}");
            match file {
                Some(file) => {
                    path::set(jobspec, &format!("{place}.type"), "file".into())?;
                    path::set(jobspec, &format!("{place}.path"), file.into())?;
                }
                None => {
                    remove(jobspec, &format!("{place}.path"));
                    remove(jobspec, &format!("{place}.type"));
                }
            }
        }
        let mode = format!("{OPTIONS}.output.mode");
        match self::mode(desc) {
            Some(word) => path::set(jobspec, &mode, word.into()),
            None => {
                remove(jobspec, &mode);
                Ok(())
            }
        }
    },
};

/// Whether this is the output file of a request that names none: `slurm-ID.out`, or `slurm-ID_INDEX.out` in an array.
/// Slurm's plugins don't see it, since it is not part of the request.
fn is_default_output(path: &str) -> bool {
    let name = path.strip_prefix("slurm-").and_then(|name| name.strip_suffix(".out"));
    let Some((id, index)) = name.map(|name| name.split_once('_').unwrap_or((name, "0"))) else {
        return false;
    };
    if (id, index) == ("%A", "%a") {
        return true;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (id == "%j" || (is_number(id) && name != Some(id))) && is_number(index)
}

const TRUNCATE: u8 = 1;
const APPEND: u8 = 2;

fn mode(desc: &JobDescriptor) -> Option<&'static str> {
    match desc.open_mode {
        APPEND => Some("append"),
        TRUNCATE => Some("truncate"),
        _ => None,
    }
}

/// The files of standard input, output and error, as templates of the manager.
fn paths(desc: &JobDescriptor) -> [Option<String>; 3] {
    let user = desc.user_name.as_deref();
    let array = desc.array_inx.is_some();
    [&desc.std_in, &desc.std_out, &desc.std_err]
        .map(|path| path.as_deref().map(|path| template(path, user, array)))
}

/// The number that Slurm has for the index of a job that is in no array, and its last digit.
const NO_INDEX: [&str; 2] = ["4294967294", "4"];

/// The manager's tags for the letters of the patterns that only jobs of arrays have.
const ARRAY_TAGS: [(char, &str); 3] =
    [('A', "{{array.id.dec}}"), ('a', "{{array.index}}"), ('b', "{{slurm.array-digit}}")];

/// The manager's tags for the letters of Slurm's patterns.
const TAGS: [(char, &str); 5] = [
    ('j', "{{id.dec}}"),
    ('x', "{{name}}"),
    ('t', "{{taskid}}"),
    ('n', "{{node.id}}"),
    ('N', "{{node.name}}"),
];

/// The template for a file name with Slurm's patterns: `slurm-%j.out` becomes `slurm-{{id.dec}}.out`. A
/// pattern that has no tag stays as it is, and the number of digits of a pattern is lost, except for that of an index.
fn template(name: &str, user: Option<&str>, array: bool) -> String {
    // A backslash turns patterns off.
    if name.contains('\\') {
        return name.replace('\\', "");
    }
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let letter = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = after.len() - letter.len();
        let first = letter.chars().next();
        let of_array = ARRAY_TAGS.iter().filter(|_| array);
        let of_array = of_array.into_iter().find(|(letter, _)| Some(*letter) == first);
        if let Some((letter, tag)) = of_array {
            let width = after.get(..digits).filter(|digits| *letter == 'a' && !digits.is_empty());
            match width {
                Some(width) => text.push_str(&format!("{{{{array.index.{width}}}}}")),
                None => text.push_str(tag),
            }
            rest = after.get(digits + 1..).unwrap_or_default();
            continue;
        }
        let tag = match first {
            Some('%') if digits == 0 => Some("%"),
            // The job, the job with its step, and the array; the script runs in the job itself.
            Some('J' | 'A') => Some("{{id.dec}}"),
            Some('u') => user,
            // The script is the step `batch`.
            Some('s') => Some("batch"),
            Some('a') => NO_INDEX.first().copied(),
            Some('b') => NO_INDEX.last().copied(),
            Some(first) => TAGS.iter().find(|(letter, _)| *letter == first).map(|(_, tag)| *tag),
            None => None,
        };
        match (tag, first) {
            (Some(tag), Some(first)) => {
                text.push_str(tag);
                rest = letter.get(first.len_utf8()..).unwrap_or_default();
            }
            _ => {
                text.push('%');
                rest = after;
            }
        }
    }
    text + rest
}

/// The file name with Slurm's patterns for a template.
fn pattern(template: &str) -> String {
    let mut text = template.replace('%', "%%");
    for (letter, tag) in TAGS.into_iter().chain(ARRAY_TAGS) {
        text = text.replace(tag, &format!("%{letter}"));
    }
    text
}

pub(super) const COMMAND: Group = Group {
    fields: &[
        ("script", "attributes.system.files.script, which tasks[0].command runs in the first task"),
        ("argv", "tasks[0].command"),
    ],
    read: |jobspec, desc| {
        let words = jobspec.pointer("/tasks/0/command").and_then(Value::as_array);
        let words = words.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let words: Vec<String> = words.collect();
        // Whatever the shell code is: other versions wrote it differently.
        let launched = words.strip_prefix(SHELL.map(str::to_owned).as_slice());
        let launched = launched.and_then(|words| words.get(1..));
        let launched =
            launched.filter(|words| words.first().is_some_and(|path| path == SCRIPT_PATH));
        let file = path::get(jobspec, SCRIPT);
        let text =
            file.filter(|file| file.get("encoding").is_none_or(|encoding| encoding == "utf-8"));
        let text = text.and_then(|file| file.get("data")).and_then(Value::as_str);
        match (launched, text.filter(|text| !text.is_empty())) {
            (Some(words), Some(text)) => {
                desc.script = Some(text.to_owned());
                // A script without arguments has an empty `argv`, without its own name.
                desc.argv = if words.len() > 1 { words.to_vec() } else { Vec::new() };
            }
            _ => desc.argv = words,
        }
        desc.argc = u32::try_from(desc.argv.len()).unwrap_or(u32::MAX);
    },
    same: |a, b| a.script == b.script && arguments(a) == arguments(b),
    put: |_, desc, jobspec| {
        match &desc.script {
            Some(script) => {
                let new = json!({"mode": 0o100_755, "size": script.len(), "encoding": "utf-8", "data": script});
                let old = path::get(jobspec, SCRIPT).and_then(Value::as_object).cloned();
                let mut file = old.unwrap_or_default();
                let mode = file.get("mode").cloned();
                file.extend(new.as_object().cloned().unwrap_or_default());
                if let Some(mode) = mode {
                    file.insert("mode".to_owned(), mode);
                }
                path::set(jobspec, SCRIPT, Value::Object(file))?;
            }
            None => remove(jobspec, SCRIPT),
        }
        let launch = SHELL.into_iter().chain([LAUNCH, SCRIPT_PATH]).map(str::to_owned);
        let command: Vec<String> = match desc.script {
            Some(_) => launch.chain(arguments(desc).iter().cloned()).collect(),
            None => arguments(desc).to_vec(),
        };
        if let Some(task) = jobspec.pointer_mut("/tasks/0").and_then(Value::as_object_mut) {
            task.insert("command".to_owned(), json!(command));
        }
        Ok(())
    },
};

/// The words of the command, without the name of the script if there is one.
fn arguments(desc: &JobDescriptor) -> &[String] {
    match &desc.script {
        Some(_) => desc.argv.get(1..).unwrap_or_default(),
        None => &desc.argv,
    }
}

/// The shell option `signal`, whose time is in seconds.
///
/// Slurm signals the shell of a batch script only if the request says so, and otherwise the steps that the script
/// starts. In that case the job doesn't have this option: the fields are kept, and `srun` warns its own step.
pub(super) const SIGNAL: Group = Group {
    fields: &[
        ("warn_signal", "attributes.system.shell.options.signal.signum"),
        ("warn_time", "attributes.system.shell.options.signal.timeleft"),
        ("warn_flags", "attributes.system.shell.options.signal.reach"),
    ],
    read: |jobspec, desc| {
        let option = path::get(jobspec, SIGNAL_OPTION);
        let member = |name: &str| option?.get(name)?.as_f64().filter(|number| *number >= 0.0);
        desc.warn_signal =
            member("signum").map(|number| number as u16).filter(|number| *number > 0);
        desc.warn_time =
            member("timeleft").map(|number| number as u16).filter(|number| *number > 0);
        let only_task = option.and_then(|option| option.get("reach")).is_some_and(|r| r == "task");
        desc.warn_flags = if only_task { WARN_BATCH_SHELL } else { 0 };
    },
    same: |a, b| warning(a) == warning(b) && of_shell(a) == of_shell(b),
    put: |_, desc, jobspec| match warning(desc) {
        Some((signal, time)) if desc.script.is_none() => {
            path::set(jobspec, SIGNAL_OPTION, json!({"signum": signal, "timeleft": time}))
        }
        Some((signal, time)) if of_shell(desc) => {
            let option = json!({"signum": signal, "timeleft": time, "reach": "task"});
            path::set(jobspec, SIGNAL_OPTION, option)
        }
        _ => {
            remove(jobspec, SIGNAL_OPTION);
            Ok(())
        }
    },
};

/// The bit of `warn_flags` for `--signal=B:`.
const WARN_BATCH_SHELL: u16 = 1;

/// Whether the signal is for the shell of a batch script alone.
fn of_shell(desc: &JobDescriptor) -> bool {
    desc.script.is_some() && desc.warn_flags & WARN_BATCH_SHELL != 0
}

/// The signal and its time; Slurm's default is a minute.
fn warning(desc: &JobDescriptor) -> Option<(u16, u16)> {
    desc.warn_signal.map(|signal| (signal, desc.warn_time.unwrap_or(60)))
}

const SIGNAL_OPTION: &str = "attributes.system.shell.options.signal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_file_names_become_tags() {
        for (name, tags) in [
            ("slurm-%j.out", "slurm-{{id.dec}}.out"),
            ("%A.%x-%t", "{{id.dec}}.{{name}}-{{taskid}}"),
            ("100%%/%N/%n", "100%/{{node.name}}/{{node.id}}"),
            ("%5j", "{{id.dec}}"),
            ("%u", "alice"),
            ("%s %a %b", "batch 4294967294 4"),
            ("%q %", "%q %"),
            (r"a\%j", "a%j"),
        ] {
            assert_eq!(template(name, Some("alice"), false), tags, "{name}");
        }
        assert_eq!(template("%u", None, false), "%u");
        let of_array =
            "{{array.id.dec}}_{{array.index}}.{{array.index.4}} {{slurm.array-digit}} {{id.dec}}";
        assert_eq!(template("%A_%a.%4a %b %j", None, true), of_array);
    }

    #[test]
    fn the_default_output_is_not_part_of_a_request() {
        for path in ["slurm-%j.out", "slurm-%A_%a.out", "slurm-%j_3.out", "slurm-123_3.out"] {
            assert!(is_default_output(path), "{path}");
        }
        for path in ["slurm-123.out", "slurm-%j_x.out", "slurm-.out", "out", "slurm-%x.out"] {
            assert!(!is_default_output(path), "{path}");
        }
    }

    #[test]
    fn a_template_becomes_a_pattern_that_means_it() {
        for name in
            ["slurm-{{id.dec}}.out", "{{name}}", "50% {{taskid}}", "{{id}}.out", "%j", "a%%b"]
        {
            assert_eq!(template(&pattern(name), None, false), name);
        }
    }
}
