//! The tables that only this manager has.

use super::table::Content::{Keys, Named};
use super::table::{By, Reader, Table, at_start, served};

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "allocation",
        by: By::Jobtap,
        content: Keys(
            Reader::Several,
            &[
                served("name", "by default that of the engine"),
                served(
                    "engine",
                    "`\"slurm\"`, `\"flux\"` or `\"command\"`: who is asked for allocations",
                ),
                served("options", "words that are passed on to it"),
                served("command", "the words of the site's own command"),
                served("nodes", "the nodes of one allocation"),
                served("cores", "the cores of each node"),
                served("gpus", "the GPUs of each node"),
                served("properties", "the properties of each node"),
                served("min", "the allocations that are kept without jobs"),
                served("max", "the most allocations at once"),
                served("time-limit", "of one allocation"),
                served("idle-time", "an allocation without jobs is given back after this time"),
                served("backlog", "the pending jobs before one is asked for"),
                served("core-hours-per-day", "the most that are granted within 24 hours"),
                served(
                    "on-loss",
                    "`\"requeue\"` or `\"fail\"`: what becomes of jobs whose nodes are gone",
                ),
                served("requests-per-hour", "the most requests within an hour"),
            ],
        ),
    },
    Table {
        name: "allocation-address",
        by: By::Jobtap,
        content: Keys(
            Reader::List,
            &[
                at_start(
                    "host",
                    "the name or address of this host at which the nodes of allocations reach it",
                ),
                at_start("port", "the port there; by default any that is free"),
            ],
        ),
    },
    Table {
        name: "audit",
        by: By::Jobtap,
        content: Keys(
            Reader::List,
            &[at_start("max-events", "how many events the audit log keeps")],
        ),
    },
    Table {
        name: "http",
        by: By::Jobtap,
        content: Keys(
            Reader::List,
            &[
                at_start("hosts", "the names by which clients call this host"),
                at_start("listen", "where the manager listens for HTTP"),
                at_start("token-file", "the file with the owner's token"),
            ],
        ),
    },
    Table {
        name: "log",
        by: By::Jobtap,
        content: Keys(Reader::List, &[at_start("ring-size", "how many lines `dmesg` has")]),
    },
    Table {
        name: "plugins",
        by: By::Jobtap,
        content: Named("`[plugins.NAME]` is the own table of the plugin `NAME`, which checks it"),
    },
    Table {
        name: "store",
        by: By::Jobtap,
        content: Keys(
            Reader::List,
            &[
                at_start(
                    "damage",
                    "`\"refuse\"` or `\"repair\"`: what a damaged store means for the start",
                ),
                at_start("memory", "how much memory the store may use"),
            ],
        ),
    },
];
