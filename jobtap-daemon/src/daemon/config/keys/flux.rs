//! The tables of flux-config-*(5), as of flux-core 0.88.

use super::related::OF_IMP;
use super::table::Content::{Idle, Keys};
use super::table::{
    By, Key, Reader, Table, at_start, no_effect, no_effect_unless, own, refused, served,
};

const ONE_MANAGER: &str = "one manager serves all nodes, so there are no brokers to connect";
const NO_SYSTEMD: &str = "jobs are processes of the manager, not units of systemd, and get neither the limits nor the \
                          devices that are set here: limit the manager's own service instead";
const NO_SHELL: &str = "tasks are started without job shells";
const SCRIPT: &[Key] = &[
    served("command", "without it, that of `exec.imp`"),
    served("per-rank", ""),
    served("timeout", ""),
    served("kill-timeout", "SIGKILL follows then, and the nodes are drained"),
    served("cancel-on-exception", ""),
    no_effect("exit-on-first-error", "there is one script, which decides itself what it runs"),
    own(served(
        "on-restart",
        "`\"fail\"` or `\"rerun\"`: what happens to it when the manager restarts",
    )),
];

/// A key of the IMP's own `[exec]`.
const fn of_imp(name: &'static str) -> Key {
    Key { by: Some(By::Flux("flux-config-security-imp")), ..no_effect(name, OF_IMP) }
}

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "access",
        by: By::Flux("flux-config-access"),
        content: Keys(
            Reader::Itself,
            &[
                served("allow-guest-user", ""),
                served("allow-root-owner", ""),
                served("private-mode", ""),
                own(served("guest-request-rate", "how many requests a second a guest may send")),
            ],
        ),
    },
    Table {
        name: "access.roles",
        by: By::Flux("flux-config-access"),
        content: Keys(Reader::List, &[]),
    },
    Table {
        name: "access.roles.admin",
        by: By::Flux("flux-config-access"),
        content: Keys(Reader::List, &[served("users", ""), served("groups", "")]),
    },
    Table {
        name: "bootstrap",
        by: By::Flux("flux-config-bootstrap"),
        content: Idle {
            why: "one manager serves all nodes, so there are no brokers to connect; `[[resource.config]]` names the \
                  nodes",
            keys: &[
                "enable_ipv6",
                "curve_cert",
                "default_port",
                "default_bind",
                "default_connect",
                "hosts",
            ],
        },
    },
    Table {
        name: "exec",
        by: By::Flux("flux-config-exec"),
        content: Keys(
            Reader::List,
            &[
                served(
                    "imp",
                    "the command of prologs, epilogs and housekeeping that have none; jobs are started without it, as \
                     their users by a manager that root runs",
                ),
                no_effect_unless("service", &["\"rexec\""], NO_SYSTEMD),
                no_effect_unless(
                    "method",
                    &["\"bulk-exec\""],
                    "the manager starts all tasks itself",
                ),
                no_effect("job-shell", NO_SHELL),
                no_effect(
                    "shell-exit-timeout",
                    "tasks are started without job shells; a job's own `-o exit-timeout` \
                                                 ends it when the first of its tasks has ended",
                ),
                served("kill-timeout", ""),
                served("max-kill-count", ""),
                served("max-kill-timeout", "counted from the first kill signal"),
                served("term-signal", ""),
                served("kill-signal", ""),
                no_effect(
                    "barrier-timeout",
                    "tasks are started without job shells that would wait for each other",
                ),
                served("max-start-delay-percent", ""),
                no_effect("sdexec-constrain-resources", NO_SYSTEMD),
                no_effect("sdexec-stop-timer-sec", NO_SYSTEMD),
                no_effect("sdexec-stop-timer-signal", NO_SYSTEMD),
                of_imp("allowed-users"),
                of_imp("allowed-shells"),
                of_imp("allow-unprivileged-exec"),
                of_imp("pam-support"),
                own(served("output-limit", "how much of a job's output is kept without a file")),
            ],
        ),
    },
    Table {
        name: "exec.sdexec-properties",
        by: By::Flux("flux-config-exec"),
        content: Idle {
            why: NO_SYSTEMD,
            keys: &[
                "MemoryMax",
                "MemoryHigh",
                "MemoryMin",
                "MemoryLow",
                "MemorySwapMax",
                "OOMScoreAdjust",
            ],
        },
    },
    Table {
        name: "exec.testexec",
        by: By::Flux("flux-config-exec"),
        content: Keys(Reader::List, &[served("allow-guests", "")]),
    },
    Table {
        name: "sdexec",
        by: By::Flux("flux-config-exec"),
        content: Idle { why: NO_SYSTEMD, keys: &["mapper", "mapper-searchpath"] },
    },
    Table {
        name: "fake-resources",
        by: By::Flux("flux-config-fake-resources"),
        content: Keys(
            Reader::Itself,
            &[
                at_start("nnodes", ""),
                at_start("cores-per-node", ""),
                at_start("gpus-per-node", ""),
                at_start("host-prefix", ""),
                refused(
                    "hwloc-xml-path",
                    "topologies aren't read: say what a node has by `cores-per-node` and `gpus-per-node`",
                ),
                refused(
                    "amend-r",
                    "no Python runs here: write R with its properties to a file, and name that as `resource.path`",
                ),
            ],
        ),
    },
    Table {
        name: "heartbeat",
        by: By::Flux("flux-config-heartbeat"),
        content: Idle { why: ONE_MANAGER, keys: &["period", "timeout", "warn_thresh"] },
    },
    Table {
        name: "ingest",
        by: By::Flux("flux-config-ingest"),
        content: Keys(
            Reader::List,
            &[
                no_effect(
                    "batch-count",
                    "submissions that come together are stored together, without a timer",
                ),
                no_effect(
                    "buffer-size",
                    "jobspecs are checked without other processes; `ingest.max-jobspec-size` \
                                          limits them",
                ),
                own(served("max-jobspec-size", "")),
            ],
        ),
    },
    Table {
        name: "ingest.frobnicator",
        by: By::Flux("flux-config-ingest"),
        content: Keys(
            Reader::List,
            &[
                served("disable", ""),
                served("plugins", "`defaults`, `constraints`"),
                no_effect("args", "the frobnicators have no options"),
            ],
        ),
    },
    Table {
        name: "ingest.validator",
        by: By::Flux("flux-config-ingest"),
        content: Keys(
            Reader::List,
            &[
                served("disable", ""),
                served("plugins", "`jobspec`, `schema`, `feasibility`, `require-instance`"),
                served(
                    "args",
                    "`--require-version=1` (or `any`), `--require-instance-minnodes=N`, \
                     `--require-instance-mincores=N`; others are refused",
                ),
            ],
        ),
    },
    Table {
        name: "ingest.validator.require-instance",
        by: By::Flux("flux-config-ingest"),
        content: Keys(Reader::Itself, &[served("minnodes", ""), served("mincores", "")]),
    },
    Table {
        name: "job-manager",
        by: By::Flux("flux-config-job-manager"),
        content: Keys(
            Reader::ListOfTable,
            &[
                served("inactive-age-limit", ""),
                served("inactive-num-limit", "-1 means no limit"),
                at_start("stop-queues-on-restart", ""),
                no_effect(
                    "journal-size-limit",
                    "the journal has no limit: watchers get the events since they began",
                ),
                at_start(
                    "plugins",
                    "a plugin is one that is linked into the manager, and `NAME.so` means the plugin `NAME`",
                ),
                own(at_start("plugin-order", "")),
                own(served("plugin-panic-limit", "")),
                own(served("plugin-time-budget", "")),
            ],
        ),
    },
    Table {
        name: "job-manager.housekeeping",
        by: By::Flux("flux-config-job-manager"),
        content: Keys(
            Reader::Plugin("housekeeping"),
            &[
                served("command", "without it, that of `exec.imp`"),
                served("release-after", ""),
                no_effect(
                    "exit-on-first-error",
                    "there is one script, which decides itself what it runs",
                ),
                no_effect("use-systemd-unit", "it is deprecated in Flux too"),
            ],
        ),
    },
    Table {
        name: "job-manager.prolog",
        by: By::Flux("flux-config-job-manager"),
        content: Keys(Reader::Plugin("perilog"), SCRIPT),
    },
    Table {
        name: "job-manager.epilog",
        by: By::Flux("flux-config-job-manager"),
        content: Keys(Reader::Plugin("perilog"), SCRIPT),
    },
    Table {
        name: "job-manager.perilog",
        by: By::Flux("flux-config-job-manager"),
        content: Keys(Reader::Plugin("perilog"), &[served("log-ignore", "")]),
    },
    Table {
        name: "kvs",
        by: By::Flux("flux-config-kvs"),
        content: Idle {
            why: "every event is stored durably before it is told, and the store merges its tables itself",
            keys: &["checkpoint-period", "gc-threshold"],
        },
    },
    Table {
        name: "modules",
        by: By::Flux("flux-modprobe"),
        content: Idle {
            why: "there are no modules to load; `policy.scheduler.queue-policy` chooses the scheduler",
            keys: &["alternatives"],
        },
    },
    Table {
        name: "policy",
        by: By::Flux("flux-config-policy"),
        content: Keys(Reader::Itself, &[]),
    },
    Table {
        name: "policy.jobspec.defaults.system",
        by: By::Flux("flux-config-policy"),
        content: Keys(Reader::Itself, &[served("duration", ""), served("queue", "")]),
    },
    Table {
        name: "policy.limits",
        by: By::Flux("flux-config-policy"),
        content: Keys(Reader::Itself, &[served("duration", "")]),
    },
    Table {
        name: "policy.limits.job-size.max",
        by: By::Flux("flux-config-policy"),
        content: Keys(
            Reader::Itself,
            &[served("nnodes", ""), served("ncores", ""), served("ngpus", "")],
        ),
    },
    Table {
        name: "policy.limits.job-size.min",
        by: By::Flux("flux-config-policy"),
        content: Keys(
            Reader::Itself,
            &[served("nnodes", ""), served("ncores", ""), served("ngpus", "")],
        ),
    },
    Table {
        name: "policy.access",
        by: By::Flux("flux-config-policy"),
        content: Keys(
            Reader::Itself,
            &[
                served("allow-user", "enforced, which Flux doesn't do"),
                served("allow-group", "enforced, which Flux doesn't do"),
            ],
        ),
    },
    Table {
        name: "policy.scheduler",
        by: By::Jobtap,
        content: Keys(
            Reader::List,
            &[served(
                "queue-policy",
                "`easy`, `conservative`, `fifo`, or a scheduler that a crate adds, which may have \
                                      keys of its own",
            )],
        ),
    },
    Table {
        name: "queues.*",
        by: By::Flux("flux-config-queues"),
        content: Keys(
            Reader::Itself,
            &[
                served("requires", ""),
                served("parent", "the queue is virtual: it shares the nodes of its parent"),
                served("policy", "as `[policy]`, for this queue, but for a default queue"),
            ],
        ),
    },
    Table {
        name: "queues.*.policy.scheduler",
        by: By::Jobtap,
        content: Keys(Reader::List, &[served("queue-policy", "that of this queue")]),
    },
    Table {
        name: "resource",
        by: By::Flux("flux-config-resource"),
        content: Keys(
            Reader::Itself,
            &[
                at_start("path", ""),
                at_start(
                    "config",
                    "an array of tables with `hosts`, `cores`, `gpus` and `properties`",
                ),
                no_effect("scheduling", "no scheduler here reads it"),
                served("exclude", ""),
                at_start("norestrict", ""),
                at_start(
                    "verify",
                    "`core` (and `default`) for this host, with which the manager doesn't start if they differ; other \
                     hosts, names of hosts and GPUs can't be looked at",
                ),
                at_start("noverify", ""),
                at_start("rediscover", ""),
                served("journal-max", ""),
                no_effect_unless(
                    "history",
                    &["\"inf\"", "\"infinity\""],
                    "the events of nodes are kept for good",
                ),
                no_effect(
                    "no-update-watch",
                    "the resources of a job that is a manager change with the job",
                ),
                own(served("maintenance", "when nodes will be away")),
            ],
        ),
    },
    Table {
        name: "systemd",
        by: By::Flux("flux-config-systemd"),
        content: Idle { why: NO_SYSTEMD, keys: &["enable", "sdbus-debug", "sdexec-debug"] },
    },
    Table {
        name: "tbon",
        by: By::Flux("flux-config-tbon"),
        content: Idle {
            why: ONE_MANAGER,
            keys: &[
                "topo",
                "torpid_min",
                "torpid_max",
                "tcp_user_timeout",
                "connect_timeout",
                "zmqdebug",
                "zmq_io_threads",
                "child_rcvhwm",
                "interface-hint",
                "keepalive_count",
                "keepalive_idle",
                "keepalive_interval",
            ],
        },
    },
];
