//! The tables that only this manager has.

use super::table::Content::{Keys, Named};
use super::table::{By, Reader, Table, at_start};

pub(super) const TABLES: &[Table] = &[
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
