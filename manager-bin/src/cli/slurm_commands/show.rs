//! What `scontrol show` prints: `KEY=VALUE` in lines, with Slurm's keys.

use super::job_line::{JobLine, NULL, display, or_null, time};
use super::nodes::{Node, hostlist};
use crate::cli::accounting::{exit_code, span};
use crate::rpc::services::queue::Queue;

/// An entity: its lines, each of which has several keys.
pub(super) type Entity = Vec<String>;

/// The text of entities: their lines indented below each other, or with `one_line` one line each. What users have
/// written, such as a name with a line break, makes no lines of its own.
pub(super) fn joined(entities: impl Iterator<Item = Entity>, one_line: bool) -> String {
    let in_line = |line: &String| crate::shown::in_line(line).into_owned();
    entities
        .map(|lines| lines.iter().map(in_line).collect::<Entity>())
        .map(|lines| match one_line {
            true => lines.join(" ") + "\n",
            false => lines.join("\n   ") + "\n\n",
        })
        .collect()
}

fn limit(seconds: Option<f64>, none: &str) -> String {
    seconds.map_or_else(|| none.to_owned(), span)
}

/// A job.
pub(super) fn job(job: &JobLine) -> Entity {
    let row = &job.row;
    let id = row.id.as_u64();
    let array = job.place.map(|place| {
        let indexes = match job.pending.is_empty() {
            true => place.index.to_string(),
            false => job.pending_indexes(),
        };
        format!(" ArrayJobId={} ArrayTaskId={indexes}", place.array.as_u64())
    });
    let request = job.request.as_ref();
    let script = request.is_some_and(|desc| desc.script.is_some());
    let (name, cwd) = (row.text("name"), row.text("cwd"));
    let file = |file: Option<&String>| {
        let file = file.map(|file| file.replace("%j", &id.to_string()).replace("%x", name));
        file.map(|file| if file.starts_with('/') { file } else { format!("{cwd}/{file}") })
    };
    let default = || match job.place {
        Some(place) => format!("{cwd}/slurm-{}_{}.out", place.array.as_u64(), place.index),
        None => format!("{cwd}/slurm-{id}.out"),
    };
    let output = file(request.and_then(|desc| desc.std_out.as_ref()));
    let output = output.or_else(|| script.then(default)).unwrap_or_default();
    let errors =
        file(request.and_then(|desc| desc.std_err.as_ref())).unwrap_or_else(|| output.clone());
    let input = file(request.and_then(|desc| desc.std_in.as_ref()));
    let hosts = row.text("nodelist");
    let first =
        hosts.parse::<jobtap_core::resource::Hostlist>().ok().and_then(|hosts| hosts.first());
    let cpus = request.and_then(|desc| desc.cpus_per_task).unwrap_or(1);
    let nodes = row.int("nnodes").filter(|count| *count > 0).unwrap_or(1);
    let cores = row.int("ncores").unwrap_or(0);
    let mut lines = vec![
        format!("JobId={id}{} JobName={name}", array.unwrap_or_default()),
        format!(
            "UserId={}({})",
            row.username().unwrap_or_default(),
            row.userid().unwrap_or_default()
        ),
        format!(
            "Priority={} Nice=0 Account={} QOS={}",
            job.number("priority"),
            or_null(row.text("bank").to_owned()),
            job.asked(|desc| desc.qos.clone())
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            job.state().long(),
            job.reason(),
            job.dependency()
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}",
            request.and_then(|desc| desc.requeue).unwrap_or(1),
            job.restarts,
            u8::from(script),
            exit_code(row)
        ),
        format!(
            "RunTime={} TimeLimit={} TimeMin=N/A",
            span(row.runtime()),
            limit(job.time_limit(), "UNLIMITED")
        ),
        format!(
            "SubmitTime={} EligibleTime={}",
            job.time("t_submit", "Unknown"),
            job.time("t_sched", "Unknown")
        ),
        format!(
            "StartTime={} EndTime={} Deadline=N/A",
            job.time("t_run", "Unknown"),
            job.end_time("Unknown")
        ),
        format!("Partition={}", job.partition()),
        format!(
            "ReqNodeList={} ExcNodeList={}",
            job.asked(|desc| desc.req_nodes.clone()),
            job.asked(|desc| desc.exc_nodes.clone())
        ),
        format!("NodeList={hosts}"),
    ];
    lines.extend(first.map(|host| format!("BatchHost={host}")));
    lines.extend([
        format!(
            "NumNodes={nodes} NumCPUs={cores} NumTasks={} CPUs/Task={cpus}",
            job.number("ntasks")
        ),
        format!("TRES=cpu={cores},node={nodes}"),
        format!("Features={}", job.asked(|desc| desc.features.clone())),
        format!("Licenses={}", job.asked(|desc| desc.licenses.clone())),
        format!("Command={}", job.asked(|desc| desc.argv.first().cloned())),
        format!("WorkDir={cwd}"),
    ]);
    lines.extend(
        request.and_then(|desc| desc.comment.as_ref()).map(|text| format!("Comment={text}")),
    );
    lines.extend([
        format!("StdErr={errors}"),
        format!("StdIn={}", input.unwrap_or_else(|| "/dev/null".to_owned())),
        format!("StdOut={output}"),
    ]);
    lines
}

/// A node.
pub(super) fn node(node: &Node) -> Entity {
    let gres = |count: usize| if count == 0 { String::new() } else { format!(",gres/gpu={count}") };
    let used = match node.busy_cores {
        0 => String::new(),
        cores => format!("cpu={cores}{}", gres(node.busy_gpus)),
    };
    let features = or_null(node.properties.join(","));
    let mut lines = vec![
        format!("NodeName={} CoresPerSocket={}", node.host, node.cores),
        format!("CPUAlloc={} CPUEfctv={} CPUTot={}", node.busy_cores, node.cores, node.cores),
        format!("AvailableFeatures={features}"),
        format!("ActiveFeatures={features}"),
        format!(
            "Gres={}",
            if node.gpus == 0 { NULL.to_owned() } else { format!("gpu:{}", node.gpus) }
        ),
        format!("NodeAddr={} NodeHostName={}", node.host, node.host),
        format!("State={} ThreadsPerCore=1", node.state.flags(node.busy_cores > 0)),
        format!("Partitions={}", node.partitions.join(",")),
        format!("CfgTRES=cpu={}{}", node.cores, gres(node.gpus)),
        format!("AllocTRES={used}"),
    ];
    lines.extend(node.reason.as_ref().map(|reason| {
        let user = reason.userid.map_or("Unknown".to_owned(), |uid| display().users.name(uid));
        let since = time(reason.since, &display().zone).unwrap_or_default();
        format!("Reason={} [{user}@{since}]", reason.text)
    }));
    lines
}

/// A partition, with those of the nodes that belong to it.
pub(super) fn partition(queue: &Queue, nodes: &[Node]) -> Entity {
    let own: Vec<&Node> =
        nodes.iter().filter(|node| node.partitions.contains(&queue.name)).collect();
    let (cores, count) = (own.iter().map(|node| node.cores).sum::<usize>(), own.len());
    let (limits, status) = (queue.limits, &queue.status);
    let state = match (status.enable != Some(false), status.start != Some(false)) {
        (true, true) => "UP",
        (true, false) => "DOWN",
        (false, true) => "DRAIN",
        (false, false) => "INACTIVE",
    };
    let most = limits.max.nnodes.map_or("UNLIMITED".to_owned(), |most| most.to_string());
    vec![
        format!("PartitionName={}", queue.name),
        format!("Default={}", if queue.default { "YES" } else { "NO" }),
        format!("DefaultTime={}", limit(queue.defaults.timelimit, "NONE")),
        format!(
            "MaxNodes={most} MaxTime={} MinNodes={}",
            limit(limits.timelimit, "UNLIMITED"),
            limits.min.nnodes.unwrap_or(0)
        ),
        format!("Nodes={}", hostlist(own.iter().map(|node| node.host.as_str()))),
        format!("State={state} TotalCPUs={cores} TotalNodes={count}"),
        format!("TRES=cpu={cores},node={count}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_users_make_no_lines() {
        let entity =
            || std::iter::once(vec!["JobName=a\n   UserId=root(0)".to_owned(), "B=2".into()]);
        assert_eq!(joined(entity(), false), "JobName=a\\u000a   UserId=root(0)\n   B=2\n\n");
        assert_eq!(joined(entity(), true), "JobName=a\\u000a   UserId=root(0) B=2\n");
    }
}
