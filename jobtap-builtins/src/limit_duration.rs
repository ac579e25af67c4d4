//! `.limit-duration`: how long a job may ask to run.
//!
//! ```toml
//! [policy.limits]
//! duration = "1h"                  # of all jobs; "0" is no limit
//!
//! [queues.night.policy.limits]
//! duration = "12h"                 # of this queue's jobs, in the place of the general one
//! ```
//!
//! A job without a duration, or with duration 0, may run for ever, which is more than any limit. A
//! new limit does not concern the jobs that were accepted before.

use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug, Default)]
pub struct LimitDuration {
    limits: PolicyLimits<Limits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Limits {
    duration: Option<Limit>,
}

/// A duration that stands in the configuration as a text.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Limit(Fsd);

impl TryFrom<String> for Limit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Limit).map_err(|_| "FSD value is malformed")
    }
}

#[jobtap_plugin(name = ".limit-duration", after = [".limit-job-size"])]
impl LimitDuration {
    #[on("conf.update")]
    fn conf(&mut self, conf: InstanceConf<PolicyLimits<Limits>>) {
        self.limits = conf.into_inner();
    }

    #[on("job.validate")]
    fn validate(&self, jobspec: &Jobspec) -> Result<(), Reject> {
        let (queue, asked) = (jobspec.queue(), Fsd::from_secs(jobspec.duration())?);
        match self.limits.find(queue, |limits| limits.duration) {
            Some(Limit(limit)) if limit != Fsd::ZERO && !limit.is_infinite() => {
                if asked != Fsd::ZERO && asked <= limit {
                    return Ok(());
                }
                let unlimited = asked == Fsd::ZERO;
                let asked = if unlimited { "unlimited".into() } else { asked.format_digits(2) };
                let limit = limit.format_digits(2);
                let whose = queue.map(|queue| format!(" for queue {queue}")).unwrap_or_default();
                Err(Reject::new(format!(
                    "requested duration ({asked}) exceeds policy limit of {limit}{whose}"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ConfTable as _;
    use serde_json::{Value, json};

    use super::*;

    fn refused(conf: Value) -> String {
        PolicyLimits::<Limits>::read_among_others(&conf).unwrap_err().text().to_owned()
    }

    /// The manager's own check of these tables comes first; this one is for hosts without it.
    #[test]
    fn mistakes_are_told_in_flux_s_words() {
        let of = |duration: Value| json!({"policy": {"limits": {"duration": duration}}});
        let of_queue = |table: Value| json!({"queues": {"q": table}});
        for malformed in ["xyz123", "", "-1", "1w", "nan"] {
            let text = "policy.limits.duration: FSD value is malformed";
            assert_eq!(refused(of(json!(malformed))), text);
            assert_eq!(refused(of_queue(of(json!(malformed)))), format!("queues.q.{text}"));
        }
        assert_eq!(
            refused(of(json!([]))),
            "policy.limits.duration: invalid type: array, expected a string"
        );
        assert_eq!(refused(of_queue(json!({"parent": 5}))), "queues.q: 'parent' must be a string");
        assert_eq!(
            refused(of_queue(json!({"parent": "p"}))),
            "queues.q: parent queue 'p' is not configured"
        );
    }
}
