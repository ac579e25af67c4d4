//! `.limit-duration`: limits the time limits of jobs.
//!
//! ```toml
//! [policy.limits]
//! duration = "1h"                  # for all jobs; "0" or "": no limit
//!
//! [queues.night.policy.limits]
//! duration = "12h"                 # for the jobs of this queue, instead of the general limit
//! ```
//!
//! A job without a duration, or with duration 0, has no time limit, which exceeds every limit. A new limit
//! does not apply to jobs that were accepted before.

use jobtap_core::prelude::*;

/// The plugin `.limit-duration`.
#[derive(Debug, Default)]
pub struct LimitDuration {
    limits: PolicyLimits<Limits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Limits {
    duration: Option<Limit>,
}

/// A duration, which is a string in the configuration.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Limit(Fsd);

impl TryFrom<String> for Limit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Fsd::from_config(&text).map(Limit).map_err(|_| "FSD value is malformed")
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

    /// The manager checks these tables before the plugin does. The plugin's check is for other hosts.
    #[test]
    fn errors_have_the_text_of_flux() {
        let of = |duration: Value| json!({"policy": {"limits": {"duration": duration}}});
        let of_queue = |table: Value| json!({"queues": {"q": table}});
        for malformed in ["xyz123", " ", "-1", "1w", "nan"] {
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
