//! The tables that Flux's other projects have in a site's configuration: flux-sched, flux-accounting, flux-security,
//! flux-pam and flux-coral2.

use super::table::Content::{Idle, Keys};
use super::table::{By, Reader, Table, no_effect, no_effect_unless, served};

const DEPTHS: &str =
    "`easy` looks at the 256 jobs after the first one, `conservative` at the first 64 jobs";
const SIGNATURES: &str = "the system says who a client is, so that requests need no signatures; it belongs to \
                          flux-security's own configuration";
pub(super) const OF_IMP: &str = "it belongs to the IMP's own configuration";

pub(super) const TABLES: &[Table] = &[
    Table {
        name: "sched-fluxion-qmanager",
        by: By::Flux("flux-config-sched-fluxion-qmanager"),
        content: Keys(
            Reader::List,
            &[
                served(
                    "queue-policy",
                    "as `policy.scheduler.queue-policy`, which goes before it. `fcfs` is `fifo` here, and `hybrid` is \
                     `conservative`, which reserves for the first 64 jobs",
                ),
                served(
                    "queue-policy-per-queue",
                    "as that key in `queues.NAME.policy.scheduler`, which goes before it",
                ),
                no_effect("policy-params-per-queue", DEPTHS),
                no_effect("queue-params-per-queue", DEPTHS),
            ],
        ),
    },
    Table {
        name: "sched-fluxion-qmanager.queue-params",
        by: By::Flux("flux-config-sched-fluxion-qmanager"),
        content: Idle { why: DEPTHS, keys: &["max-queue-depth", "queue-depth"] },
    },
    Table {
        name: "sched-fluxion-qmanager.policy-params",
        by: By::Flux("flux-config-sched-fluxion-qmanager"),
        content: Idle { why: DEPTHS, keys: &["max-reservation-depth", "reservation-depth"] },
    },
    Table {
        name: "sched-fluxion-resource",
        by: By::Flux("flux-config-sched-fluxion-resource"),
        content: Keys(
            Reader::List,
            &[
                no_effect_unless(
                    "match-policy",
                    &["\"first\"", "\"low\"", "\"lonode\""],
                    "jobs get the first free cores in the order of ranks, and share nodes unless they ask for \
                     `--exclusive`",
                ),
                no_effect_unless("match-format", &["\"rv1_nosched\""], "R has no `scheduling` key"),
                no_effect(
                    "match-subsystems",
                    "nodes, cores, GPUs and properties are all that is matched",
                ),
                no_effect(
                    "load-allowlist",
                    "nodes, cores, GPUs and properties are all that is matched",
                ),
                no_effect(
                    "load-file",
                    "`resource.path` or `[[resource.config]]` says which resources there are",
                ),
                no_effect(
                    "load-format",
                    "`resource.path` or `[[resource.config]]` says which resources there are",
                ),
                no_effect("reserve-vtx-vec", "there is no resource graph"),
                no_effect("prune-filters", "there is no resource graph"),
                no_effect("update-interval", "there is no resource graph"),
            ],
        ),
    },
    Table {
        name: "sched-simple",
        by: By::Flux("flux-module"),
        content: Idle {
            why: "`policy.scheduler.queue-policy` chooses the scheduler",
            keys: &["queue-depth", "mode"],
        },
    },
    Table {
        name: "archive",
        by: By::Flux("flux-config-archive"),
        content: Idle {
            why: "the manager keeps the jobs itself (`jobtap jobs -a`), and writes no database for flux-accounting",
            keys: &["period", "dbpath", "busytimeout"],
        },
    },
    Table {
        name: "accounting",
        by: By::Flux("flux-accounting-guide"),
        content: Idle {
            why: "priorities come from a plugin: build the manager with `plugins/mf-priority` to use \
                  flux-accounting's data, or load one such as `fairshare`",
            keys: &["factor-weights", "queue-priorities"],
        },
    },
    Table {
        name: "pam",
        by: By::Flux("flux-pam"),
        content: Idle {
            why: "the manager has no part in logins",
            keys: &["manage-user-slice", "kill-user-slice"],
        },
    },
    Table {
        name: "rabbit",
        by: By::Flux("flux-config-rabbit"),
        content: Idle {
            why: "`plugins/dws` has no settings in it: its service knows which rabbits there are",
            keys: &[],
        },
    },
    Table {
        name: "cray-slingshot",
        by: By::Flux("flux-config-cray-slingshot"),
        content: Idle {
            why: "jobs get VNIs in a manager that is built with `plugins/cray-slingshot`",
            keys: &["cxi-enable", "vnis-per-job", "vni-pool", "vni-reserve-fatal"],
        },
    },
    Table {
        name: "sign",
        by: By::Flux("flux-config-security-sign"),
        content: Idle {
            why: SIGNATURES,
            keys: &["max-ttl", "default-type", "allowed-types", "munge", "curve"],
        },
    },
    Table {
        name: "run",
        by: By::Flux("flux-config-security-imp"),
        content: Idle { why: OF_IMP, keys: &[] },
    },
];
