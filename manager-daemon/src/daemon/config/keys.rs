//! Warnings about keys of the configuration that have no effect and were probably meant to have one, most
//! of all misspelt ones.
//!
//! Any table may have keys that only a plugin reads, or another program that shares the file. So an unknown
//! key is no error; one that resembles a known key gets a warning. Tables that are read whole, `[access]` and `[resource]`,
//! refuse it, and then the warning says what was meant.

use jobtap_core::suggest::nearest;
use serde_json::Value;

use crate::daemon::services::access;

/// The manager's tables with their keys, and those of Flux that have no meaning here.
const TABLES: [(&str, &[&str]); 15] = [
    (
        "",
        &[
            "access",
            "audit",
            "exec",
            "http",
            "ingest",
            "job-manager",
            "log",
            "plugins",
            "policy",
            "queues",
            "resource",
            "store",
            "archive",
            "bootstrap",
            "kvs",
            "sched-simple",
            "systemd",
            "tbon",
        ],
    ),
    ("access", &access::KEYS),
    ("access.roles", &["admin"]),
    ("access.roles.admin", &["groups", "users"]),
    ("audit", &["max-events"]),
    (
        "exec",
        &[
            "barrier-timeout",
            "imp",
            "job-shell",
            "kill-signal",
            "kill-timeout",
            "max-kill-count",
            "max-kill-timeout",
            "max-start-delay-percent",
            "method",
            "output-limit",
            "service",
            "shell-exit-timeout",
            "term-signal",
            "testexec",
        ],
    ),
    ("exec.testexec", &["allow-guests"]),
    ("http", &["hosts", "listen", "token-file"]),
    ("ingest", &["batch-count", "buffer-size", "frobnicator", "max-jobspec-size", "validator"]),
    ("ingest.frobnicator", &["args", "disable", "plugins"]),
    ("ingest.validator", &["args", "disable", "plugins", "require-instance"]),
    (
        "job-manager",
        &[
            "epilog",
            "housekeeping",
            "inactive-age-limit",
            "inactive-num-limit",
            "perilog",
            "plugin-order",
            "plugin-panic-limit",
            "plugin-time-budget",
            "plugins",
            "prolog",
            "stop-queues-on-restart",
        ],
    ),
    ("log", &["ring-size"]),
    (
        "resource",
        &[
            "config",
            "exclude",
            "journal-max",
            "maintenance",
            "no-update-watch",
            "norestrict",
            "noverify",
            "path",
            "rediscover",
            "scheduling",
            "verify",
        ],
    ),
    ("store", &["damage", "memory"]),
];

/// A warning for each key that resembles one of the manager's.
pub(super) fn misspelt(config: &Value) -> Vec<String> {
    TABLES.iter().flat_map(|(table, known)| misspelt_in(config, table, known)).collect()
}

fn misspelt_in(config: &Value, table: &str, known: &[&str]) -> Vec<String> {
    let found =
        table.split('.').filter(|key| !key.is_empty()).try_fold(config, |at, key| at.get(key));
    let keys = found.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
    let place = |key: &str| match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    };
    keys.filter(|key| !known.contains(&key.as_str()))
        .filter_map(|key| {
            let meant = nearest(key, known.iter().copied())?;
            let (key, meant) = (place(key), place(meant));
            Some(format!("{key}: the manager knows no such key; did you mean {meant}?"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelt_key_is_named_with_the_one_that_was_meant() {
        let config = json!({
            "polcy": {},
            "job-manager": {"inactive-age-limt": "1h", "plugins": [], "mine": 1},
            "ingest": {"validator": {"plugin": []}},
            "site": {"users": 3},
        });
        let texts = [
            "polcy: the manager knows no such key; did you mean policy?",
            "ingest.validator.plugin: the manager knows no such key; did you mean \
             ingest.validator.plugins?",
            "job-manager.inactive-age-limt: the manager knows no such key; did you mean \
             job-manager.inactive-age-limit?",
        ];
        assert_eq!(misspelt(&config), texts);
        assert!(misspelt(&json!({"job-manager": 7})).is_empty());
    }

    /// Tables of Flux's configuration that a site may have.
    #[test]
    fn keys_of_flux_get_no_warning() {
        let config = json!({
            "access": {
                "allow-guest-user": false,
                "allow-root-owner": true,
                "private-mode": false,
                "roles": {"admin": {"users": [], "groups": []}},
            },
            "archive": {"period": "1m", "dbpath": "x"},
            "bootstrap": {"curve_cert": "x", "hosts": []},
            "exec": {"imp": "x", "job-shell": "x", "service": "sdexec", "method": "systemd"},
            "ingest": {
                "batch-count": 1,
                "frobnicator": {"disable": false, "plugins": [], "args": []},
                "validator": {"disable": false, "plugins": [], "args": []},
            },
            "job-manager": {
                "inactive-age-limit": "1h",
                "inactive-num-limit": 1,
                "plugins": [],
                "prolog": {},
                "epilog": {},
                "housekeeping": {},
            },
            "kvs": {"checkpoint-period": "30m"},
            "policy": {"limits": {}},
            "queues": {"batch": {}},
            "resource": {"path": "x", "scheduling": "x", "exclude": "0", "noverify": true},
            "sched-fluxion-qmanager": {"queue-policy": "fcfs"},
            "sched-simple": {},
            "systemd": {"enable": true},
            "tbon": {"torpid_max": 1},
        });
        assert_eq!(misspelt(&config), Vec::<String>::new());
    }
}
