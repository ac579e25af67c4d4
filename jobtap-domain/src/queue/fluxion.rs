//! `[sched-fluxion-qmanager]`: the policies that a site has chosen for Flux's scheduler Fluxion. They choose the
//! schedulers here too, unless `policy.scheduler.queue-policy` does.

use serde_json::{Map, Value};

use super::config::{Config, Policy, QueueConfigError};
use crate::json_type::json_type;
use crate::suggest::nearest;

const TABLE: &str = "sched-fluxion-qmanager";
const POLICY: &str = "queue-policy";
const PER_QUEUE: &str = "queue-policy-per-queue";

/// Fluxion's policies, with the schedulers that do the same here.
const POLICIES: [(&str, &str); 4] = [
    ("fcfs", "fcfs"),
    ("easy", "easy"),
    ("conservative", "conservative"),
    // Hybrid reserves resources for the first jobs, 64 by default, as the scheduler here does.
    ("hybrid", "conservative"),
];

/// Applies the policies of the table to the queues whose scheduler is not chosen otherwise.
///
/// # Errors
/// The table is malformed, or names a policy that Fluxion doesn't have or a queue that isn't configured.
pub(super) fn choose(config: &mut Config, whole: &Value) -> Result<(), QueueConfigError> {
    let Some(table) = whole.get(TABLE).and_then(Value::as_object) else { return Ok(()) };
    if let Some(list) = text(table, PER_QUEUE)? {
        for pair in list.split_whitespace() {
            let Some((name, policy)) = pair.split_once(':') else {
                return Err(refuse(format!("'{PER_QUEUE}': {pair} is not QUEUE:POLICY")));
            };
            let scheduler = scheduler(PER_QUEUE, policy)?;
            let Some(queue) = config.queues.get_mut(name) else {
                let meant = nearest(name, config.queues.keys().map(String::as_str));
                let meant = meant.map(|meant| format!("; did you mean {meant}?"));
                let meant = meant.unwrap_or_default();
                return Err(refuse(format!("'{PER_QUEUE}': there is no queue {name}{meant}")));
            };
            if queue.parent.is_some() {
                let text =
                    format!("'{PER_QUEUE}': {name} is virtual, and shares its parent's scheduler");
                return Err(refuse(text));
            }
            add(&mut queue.policy, scheduler);
        }
    }
    if let Some(policy) = text(table, POLICY)? {
        add(&mut config.policy, scheduler(POLICY, policy)?);
    }
    Ok(())
}

fn add(policy: &mut Policy, scheduler: &str) {
    let table = policy.scheduler.get_or_insert_with(|| Value::Object(Map::new()));
    // Any other value was refused when the policy was read.
    if let Value::Object(table) = table {
        table.entry(POLICY).or_insert_with(|| scheduler.into());
    }
}

fn text<'a>(table: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, QueueConfigError> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(refuse(format!("'{key}': Expected string, got {}", json_type(other)))),
    }
}

fn scheduler(key: &str, policy: &str) -> Result<&'static str, QueueConfigError> {
    let found = POLICIES.iter().find(|(name, _)| *name == policy);
    found.map(|(_, scheduler)| *scheduler).ok_or_else(|| {
        let names = || POLICIES.iter().map(|(name, _)| *name);
        let meant = nearest(policy, names()).map(|meant| format!("; did you mean {meant:?}?"));
        let (meant, known) = (meant.unwrap_or_default(), names().collect::<Vec<_>>().join(", "));
        refuse(format!("'{key}': Fluxion has no policy {policy:?}{meant} (one of {known})"))
    })
}

fn refuse(text: String) -> QueueConfigError {
    QueueConfigError::Table { table: TABLE.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::queue::Queues;

    fn policies(config: &Value) -> Vec<Option<String>> {
        let queues = Queues::read(config).unwrap();
        let of = |table: Value| table.get(POLICY).and_then(Value::as_str).map(str::to_owned);
        queues.iter().map(|queue| of(queue.scheduler())).collect()
    }

    #[test]
    fn policies_of_fluxion_choose_the_schedulers() {
        let of = |policy: &str| policies(&json!({TABLE: {"queue-policy": policy}}));
        for (policy, scheduler) in POLICIES {
            assert_eq!(of(policy), [Some(scheduler.to_owned())]);
        }
        assert_eq!(policies(&json!({})), [None]);
        let fluxion = json!({"queue-policy": "easy", "queue-policy-per-queue": "a:fcfs  b:hybrid"});
        let queues = json!({"a": {}, "b": {}, "c": {}});
        let found = policies(&json!({TABLE: fluxion, "queues": queues}));
        let wanted = ["fcfs", "conservative", "easy"].map(|name| Some(name.to_owned()));
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_scheduler_that_is_named_goes_before_fluxions_policy() {
        let own = json!({"scheduler": {"queue-policy": "conservative"}});
        let config = json!({
            TABLE: {"queue-policy": "fcfs", "queue-policy-per-queue": "a:easy"},
            "queues": {"a": {"policy": own}, "b": {}},
        });
        let wanted = ["conservative", "fcfs"].map(|name| Some(name.to_owned()));
        assert_eq!(policies(&config), wanted);
        let config = json!({TABLE: {"queue-policy": "fcfs"}, "policy": own});
        assert_eq!(policies(&config), [Some("conservative".to_owned())]);
    }

    #[test]
    fn what_fluxion_has_not_is_refused_by_its_key() {
        for (fluxion, text) in [
            (json!({"queue-policy": 1}), "'queue-policy': Expected string, got integer"),
            (
                json!({"queue-policy": "eazy"}),
                "'queue-policy': Fluxion has no policy \"eazy\"; did",
            ),
            (
                json!({"queue-policy-per-queue": "a"}),
                "'queue-policy-per-queue': a is not QUEUE:POLICY",
            ),
            (
                json!({"queue-policy-per-queue": "batc:easy"}),
                "'queue-policy-per-queue': there is no queue batc; did you mean batch?",
            ),
            (
                json!({"queue-policy-per-queue": "v:easy"}),
                "'queue-policy-per-queue': v is virtual, and shares its parent's scheduler",
            ),
        ] {
            let queues = json!({"batch": {}, "v": {"parent": "batch"}});
            let refused = Queues::read(&json!({TABLE: fluxion, "queues": queues})).unwrap_err();
            let wanted = format!("error parsing [sched-fluxion-qmanager] config table: {text}");
            assert!(refused.to_string().starts_with(&wanted), "{refused}");
        }
    }
}
