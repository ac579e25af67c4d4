//! The page of all tables and keys of the configuration, made from the list by which the manager judges one.

use jobtap_daemon::daemon::config::keys::{Content, Fate, Key, page, tables};

#[test]
fn the_chapter_agrees_with_the_code() {
    crate::generated::agrees("configuration-keys.md", &page());
}

/// Flux's tables and keys: those of flux-config-*(5) as of flux-core 0.88, of the two pages of flux-sched, and those that
/// older releases had. A list of its own, so that a key that is forgotten in the code is missed here.
const OF_FLUX: &[(&str, &[&str])] = &[
    ("access", &["allow-guest-user", "allow-root-owner", "private-mode"]),
    ("access.roles.admin", &["users", "groups"]),
    ("archive", &["period", "dbpath", "busytimeout"]),
    (
        "bootstrap",
        &["enable_ipv6", "curve_cert", "default_port", "default_bind", "default_connect", "hosts"],
    ),
    (
        "exec",
        &[
            "imp",
            "service",
            "method",
            "job-shell",
            "shell-exit-timeout",
            "kill-timeout",
            "max-kill-count",
            "max-kill-timeout",
            "term-signal",
            "kill-signal",
            "barrier-timeout",
            "max-start-delay-percent",
            "sdexec-constrain-resources",
            "sdexec-stop-timer-sec",
            "sdexec-stop-timer-signal",
        ],
    ),
    (
        "exec.sdexec-properties",
        &["MemoryMax", "MemoryHigh", "MemoryMin", "MemoryLow", "MemorySwapMax", "OOMScoreAdjust"],
    ),
    ("exec.testexec", &["allow-guests"]),
    ("sdexec", &["mapper", "mapper-searchpath"]),
    (
        "fake-resources",
        &["nnodes", "cores-per-node", "gpus-per-node", "host-prefix", "hwloc-xml-path", "amend-r"],
    ),
    ("heartbeat", &["period", "timeout", "warn_thresh"]),
    ("ingest", &["batch-count", "buffer-size"]),
    ("ingest.frobnicator", &["disable", "plugins", "args"]),
    ("ingest.validator", &["disable", "plugins", "args"]),
    ("ingest.validator.require-instance", &["minnodes", "mincores"]),
    (
        "job-manager",
        &[
            "inactive-age-limit",
            "inactive-num-limit",
            "journal-size-limit",
            "plugins",
            "stop-queues-on-restart",
        ],
    ),
    ("job-manager.housekeeping", &["command", "release-after", "exit-on-first-error"]),
    (
        "job-manager.prolog",
        &[
            "command",
            "per-rank",
            "timeout",
            "kill-timeout",
            "cancel-on-exception",
            "exit-on-first-error",
        ],
    ),
    (
        "job-manager.epilog",
        &[
            "command",
            "per-rank",
            "timeout",
            "kill-timeout",
            "cancel-on-exception",
            "exit-on-first-error",
        ],
    ),
    ("job-manager.perilog", &["log-ignore"]),
    ("kvs", &["checkpoint-period", "gc-threshold"]),
    ("modules", &["alternatives"]),
    ("policy.jobspec.defaults.system", &["duration", "queue"]),
    ("policy.limits", &["duration"]),
    ("policy.limits.job-size.max", &["nnodes", "ncores", "ngpus"]),
    ("policy.limits.job-size.min", &["nnodes", "ncores", "ngpus"]),
    ("policy.access", &["allow-user", "allow-group"]),
    ("policy.scheduler", &[]),
    ("queues.*", &["requires", "policy", "parent"]),
    (
        "resource",
        &[
            "path",
            "config",
            "scheduling",
            "exclude",
            "norestrict",
            "verify",
            "noverify",
            "rediscover",
            "journal-max",
            "history",
        ],
    ),
    ("sched-fluxion-qmanager", &["queue-policy", "queue-policy-per-queue"]),
    ("sched-fluxion-qmanager.queue-params", &["max-queue-depth", "queue-depth"]),
    ("sched-fluxion-qmanager.policy-params", &["max-reservation-depth", "reservation-depth"]),
    (
        "sched-fluxion-resource",
        &["match-policy", "match-format", "load-allowlist", "reserve-vtx-vec", "prune-filters"],
    ),
    ("systemd", &["enable", "sdbus-debug", "sdexec-debug"]),
    (
        "tbon",
        &[
            "topo",
            "torpid_min",
            "torpid_max",
            "tcp_user_timeout",
            "connect_timeout",
            "zmqdebug",
            "zmq_io_threads",
            "child_rcvhwm",
            "interface-hint",
        ],
    ),
];

#[test]
fn every_table_and_key_of_flux_has_its_fate() {
    for (name, keys) in OF_FLUX {
        let table = tables().find(|table| table.name == *name);
        let table = table.unwrap_or_else(|| panic!("[{name}] is in no list"));
        let known: Vec<&str> = match &table.content {
            Content::Keys(_, keys) => keys.iter().map(|key| key.name).collect(),
            Content::Idle { keys, .. } => keys.to_vec(),
            Content::Named(_) => continue,
        };
        for key in *keys {
            assert!(known.contains(key), "{name}.{key} is in no list");
        }
    }
}

/// Without this, two lists could say two things of one key.
#[test]
fn a_table_and_a_key_are_in_the_list_once() {
    let mut seen = Vec::new();
    for table in tables() {
        let keys: Vec<&str> = match &table.content {
            Content::Keys(_, keys) => keys.iter().map(|key| key.name).collect(),
            Content::Idle { keys, .. } => keys.to_vec(),
            Content::Named(_) => Vec::new(),
        };
        let names = keys.iter().map(|key| format!("{}.{key}", table.name));
        for name in names.chain([table.name.to_owned()]) {
            assert!(!seen.contains(&name), "{name} is listed twice");
            seen.push(name);
        }
    }
}

/// A key that the code reads and the list doesn't have would be refused, or be told to have no effect.
#[test]
fn every_key_that_the_code_reads_is_served() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for package in ["domain", "sdk", "engine", "core", "daemon", "builtins"] {
        sources(&root.join(format!("jobtap-{package}/src")), &mut files);
    }
    let mut found = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // Only tests come after this line.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for literal in code.lines().flat_map(|line| line.split('"').skip(1).step_by(2)) {
            let Some((table, key)) = read_by(literal) else { continue };
            found += 1;
            let has = tables().filter(|listed| listed.name == table).any(|listed| {
                let served = |k: &Key| k.name == key && matches!(k.fate, Fate::Served { .. });
                matches!(listed.content, Content::Keys(_, keys) if keys.iter().any(served))
            });
            assert!(has, "{}: {literal:?} is not in the list as served", file.display());
        }
    }
    assert!(found > 20, "only {found} keys were found in the code");
}

/// The table and the key of a text in the code that names one of a table whose keys are read one by one: `log.ring-size`,
/// `/log/ring-size`.
fn read_by(literal: &str) -> Option<(String, String)> {
    let one_by_one = [
        "access",
        "audit",
        "exec",
        "exec.testexec",
        "http",
        "ingest",
        "job-manager",
        "log",
        "store",
    ];
    // Services, and what jobs and the state directory have by these names.
    let others =
        ["exec.test", "exec.eventlog", "log.append", "log.dmesg", "log.clear", "store.lock"];
    let name = match literal.strip_prefix('/') {
        Some(pointer) => pointer.replace('/', "."),
        None => literal.to_owned(),
    };
    let (table, key) = name.rsplit_once('.')?;
    let is_key =
        !key.is_empty() && key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    // Services of the job manager have names of this form too.
    let is_service =
        table == "job-manager" && !key.starts_with("inactive-") && !key.starts_with("plugin-");
    let is_other =
        others.contains(&&*name) || is_service || tables().any(|table| table.name == name);
    // Services of the resources have names of this form too, and no pointers.
    let is_one_by_one =
        one_by_one.contains(&table) || (table == "resource" && literal.starts_with('/'));
    (is_one_by_one && is_key && !is_other).then(|| (table.to_owned(), key.to_owned()))
}

fn sources(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
