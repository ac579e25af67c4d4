//! Templates with `{{tags}}`, in the names of output files, in commands and in the environment.

mod ids;
mod slurm;

use std::sync::LazyLock;

use jobtap_core::job::Encoding;
use jobtap_core::resource::Hostlist;
use serde_json::{Value, json};

use self::ids::ids;
use super::placement::place;
use crate::exec::StartJob;
use crate::locale;

/// The job's id in F58, with a plain `f` if the job's environment has `FLUX_F58_FORCE_ASCII`, or the manager was
/// started in an ASCII locale.
pub(super) fn f58_for(job: &StartJob) -> String {
    f58(job, *UTF8)
}

/// Whether the manager was started in a locale of UTF-8.
static UTF8: LazyLock<bool> = LazyLock::new(|| locale::is_utf8(|name| std::env::var_os(name)));

/// The greatest number of digits to which an index is padded.
const WIDEST: usize = 10;

fn f58(job: &StartJob, utf8: bool) -> String {
    job.id.encode(f58_in(job, utf8))
}

fn f58_in(job: &StartJob, utf8: bool) -> Encoding {
    let ascii = !utf8 || job.env.iter().any(|(name, _)| name == "FLUX_F58_FORCE_ASCII");
    if ascii { Encoding::F58Plain } else { Encoding::F58 }
}

/// Whether a template may expand to different names for the tasks of a job: it has a tag of tasks or nodes. Tasks for
/// which the name is the same write to the same file.
pub(super) fn is_per_task(template: &str) -> bool {
    let mut tags = template.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    tags.any(|(tag, _)| {
        let tag = tag.trim();
        tag == "taskid" || tag.starts_with("task.") || tag.starts_with("node.")
    })
}

/// The longest text that the system takes as an argument or a variable (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 * 1024;

/// Expands the tags of `template` for the task with rank `rank`. An unknown tag stays as it is, so that the user sees
/// it in the name. A text that grows too long for the system is cut soon after that length, and the system then
/// refuses it.
pub(super) fn render(template: &str, job: &StartJob, rank: u32) -> String {
    expand(template, |tag| value(tag, job, Some(rank)))
}

/// The value of an environment variable; `None` if it consists of a Slurm tag that has no value in this job. Slurm
/// doesn't set the variable then.
pub(super) fn variable(template: &str, job: &StartJob, rank: u32) -> Option<String> {
    match slurm::only_tag(template) {
        Some(tag) => value(tag, job, Some(rank)),
        None => Some(render(template, job, rank)),
    }
}

/// As [`render`], but tags of tasks and nodes are not expanded. The result stands for the files of all tasks.
pub(super) fn render_for_all(template: &str, job: &StartJob) -> String {
    expand(template, |tag| value(tag, job, None))
}

fn expand(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((tag, tail)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        if out.len() > LONGEST {
            return out;
        }
        match value(tag.trim()) {
            Some(text) => out.push_str(&text),
            None => out.extend(["{{", tag, "}}"]),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The value of a tag, for a task or for the job.
fn value(tag: &str, job: &StartJob, rank: Option<u32>) -> Option<String> {
    Some(match tag {
        "id" | "jobid" | "id.f58" | "jobid.f58" => f58_for(job),
        "name" => job.name.clone(),
        "tmpdir" => job.tmpdir.as_ref()?.display().to_string(),
        "size" | "ntasks" => job.ntasks.to_string(),
        "nodelist" => nodelist(job)?,
        "nnodes" => job.nodes.len().max(1).to_string(),
        "node.id" | "node.index" => place(&job.taskmap, rank?).node.to_string(),
        "node.name" => node_name(job, rank?)?,
        "node.cores" => ids(job, rank?, "core")?.to_string(),
        "node.ncores" => ids(job, rank?, "core")?.len().to_string(),
        "node.gpus" => ids(job, rank?, "gpu")?.to_string(),
        "node.ngpus" => ids(job, rank?, "gpu")?.len().to_string(),
        "node.resources" => {
            let (cores, gpus) = (ids(job, rank?, "core")?, ids(job, rank?, "gpu")?);
            json!({"ncores": cores.len(), "cores": cores, "gpus": gpus}).to_string()
        }
        "taskid" | "task.id" | "task.rank" => rank?.to_string(),
        "array.index" => job.element?.index.to_string(),
        "array.id" => job.element?.array.encode(f58_in(job, *UTF8)),
        "task.index" => place(&job.taskmap, rank?).local.to_string(),
        _ => {
            let id = tag.strip_prefix("id.").or_else(|| tag.strip_prefix("jobid."));
            if let Some(encoding) = id {
                job.id.encode(encoding.parse().ok()?)
            } else if let Some(encoding) = tag.strip_prefix("array.id.") {
                job.element?.array.encode(encoding.parse().ok()?)
            } else if let Some(width) = tag.strip_prefix("array.index.") {
                let width = width.parse::<usize>().ok().filter(|width| *width <= WIDEST)?;
                format!("{:0width$}", job.element?.index)
            } else {
                slurm::value(tag, job, rank)?
            }
        }
    })
}

/// The host on which a task runs, as named in R.
fn node_name(job: &StartJob, rank: u32) -> Option<String> {
    let hosts: Hostlist = nodelist(job)?.parse().ok()?;
    hosts.nth(place(&job.taskmap, rank).node)
}

/// The hosts of the job, as listed in R.
fn nodelist(job: &StartJob) -> Option<String> {
    let hosts = job.resources.pointer("/execution/nodelist")?.as_array()?;
    Some(hosts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use jobtap_core::job::JobId;

    use super::*;
    use crate::exec::NodeTasks;

    fn job() -> StartJob {
        let id = JobId::new(6731191091817518);
        let lite = json!([
            {"rank": "2", "children": {"core": "9"}},
            {"rank": "3-6", "children": {"core": "0-1,4", "gpu": "0"}},
        ]);
        let execution = json!({"R_lite": lite, "nodelist": ["n[0-2]", "m1"]});
        let resources = json!({"version": 1, "execution": execution});
        let nodes = vec![NodeTasks { rank: 3, ntasks: 4 }];
        StartJob { ntasks: 4, name: "nm".to_owned(), nodes, resources, ..StartJob::new(id) }
    }

    #[test]
    fn a_text_is_not_expanded_far_beyond_what_the_system_takes() {
        let job = StartJob { name: "x".repeat(LONGEST), ..job() };
        let text = render(&"{{name}}".repeat(1000), &job, 0);
        assert_eq!(text.len(), 2 * LONGEST);
    }

    #[test]
    fn tags_are_expanded() {
        let cases = [
            ("plain.txt", "plain.txt"),
            ("out-{{name}}-{{id}}.txt", &format!("out-nm-{}.txt", f58_for(&job()))),
            ("dec-{{id.dec}}.txt", "dec-6731191091817518.txt"),
            ("{{id.dothex}} {{id.f58plain}}", "0017.e9fb.8df1.6c2e fuZZybuNNy"),
            ("{{jobid.dec}} {{jobid.f58plain}}", "6731191091817518 fuZZybuNNy"),
            ("{{id.nosuch}} {{jobid.nosuch}}", "{{id.nosuch}} {{jobid.nosuch}}"),
            ("{{node.id}} {{node.name}}", "0 n0"),
            ("size-{{size}}-{{ taskid }}", "size-4-2"),
            ("{{nodelist}}", "n[0-2],m1"),
            ("{{ntasks}} {{node.cores}} {{node.ncores}}", "4 0-1,4 3"),
            ("{{node.gpus}} {{node.ngpus}}", "0 1"),
            ("{{node.resources}}", r#"{"ncores":3,"cores":"0-1,4","gpus":"0"}"#),
            ("{{nosuch}} {{", "{{nosuch}} {{"),
            ("}}{{name}}}}", "}}nm}}"),
        ];
        for (template, expected) in cases {
            assert_eq!(render(template, &job(), 2), expected);
        }
    }

    #[test]
    fn names_with_tags_of_tasks_or_nodes_differ() {
        for template in ["{{taskid}}", "o-{{ task.rank }}", "{{id}}-{{node.name}}.out"] {
            assert!(is_per_task(template), "{template}");
        }
        for template in ["{{id}}", "{{nodelist}}", "{{tasks}}", "node.id", "{{node.id", "task.id}}"]
        {
            assert!(!is_per_task(template), "{template}");
        }
    }

    #[test]
    fn tags_of_tasks_stay_in_the_name_for_all() {
        let name =
            render_for_all("{{name}}-{{size}}-{{taskid}}-{{task.index}}-{{node.id}}", &job());
        assert_eq!(name, "nm-4-{{taskid}}-{{task.index}}-{{node.id}}");
    }

    #[test]
    fn ids_are_ascii_in_an_ascii_locale_or_by_force() {
        let env = vec![("FLUX_F58_FORCE_ASCII".to_owned(), "1".to_owned())];
        let forced = StartJob { env, ..job() };
        assert_eq!([f58(&forced, true), f58(&forced, false)], ["fuZZybuNNy"; 2]);
        assert_eq!([f58(&job(), true), f58(&job(), false)], ["ƒuZZybuNNy", "fuZZybuNNy"]);
    }

    proptest! {
        #[test]
        fn unknown_tags_stay(template in "([{}a-c. é]|\\{\\{x[a-z.]{0,3}\\}\\})*") {
            prop_assert_eq!(render(&template, &job(), 0), template);
        }

        #[test]
        fn text_without_tags_is_unchanged(text in "[^{]*") {
            prop_assert_eq!(render(&text, &job(), 0), text);
        }
    }
}
