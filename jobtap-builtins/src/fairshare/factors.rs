//! The factors of a job's priority, from 0 to 1, and their points, which are the factors times the weights
//! that a site sets.

use jobtap_core::prelude::*;

use super::conf::{Favor, Settings, Weights};

/// A number for each part of a priority: either factors or points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Factors {
    pub(super) fairshare: f64,
    pub(super) age: f64,
    pub(super) size: f64,
    pub(super) queue: f64,
    pub(super) qos: f64,
    /// In steps above or below the default urgency.
    pub(super) urgency: f64,
}

impl Factors {
    /// Computes the factors of a job. `fairshare` is the factor of its user in its bank, and `qos` the factor
    /// of its quality of service.
    pub(super) fn compute(
        job: JobRef<'_>,
        fairshare: f64,
        qos: f64,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let queue = job.jobspec().queue().and_then(|name| settings.queues.get(name));
        let waited = (now - job.t_submit()).max(0.0);
        let part = job.jobspec().counts().ncores() as f64 / settings.size.full as f64;
        let large = part.min(1.0);
        Self {
            fairshare,
            age: (waited / settings.max_age.as_secs()).min(1.0),
            size: match settings.size.favor {
                Favor::Large => large,
                Favor::Small => 1.0 - large,
            },
            queue: queue.copied().unwrap_or_default(),
            qos,
            urgency: f64::from(job.urgency().value()) - f64::from(Urgency::DEFAULT.value()),
        }
    }

    /// The points of these factors.
    pub(super) fn points(&self, weights: &Weights) -> Self {
        Self {
            fairshare: self.fairshare * weights.fairshare,
            age: self.age * weights.age,
            size: self.size * weights.size,
            queue: self.queue * weights.queue,
            qos: self.qos * weights.qos,
            urgency: self.urgency * weights.urgency,
        }
    }

    /// The sum of the points as a priority. It is neither 0, which would hold the job, nor the maximum, which
    /// would expedite it.
    pub(super) fn priority(&self) -> Priority {
        let sum = self.fairshare + self.age + self.size + self.queue + self.qos + self.urgency;
        Priority::clamped(sum.clamp(1.0, f64::from(u32::MAX) - 1.0))
    }
}

/// A string attribute of the jobspec.
pub(super) fn attribute<'a>(job: JobRef<'a>, name: &str) -> Option<&'a str> {
    job.jobspec().attribute(name).and_then(|value| value.as_str())
}
