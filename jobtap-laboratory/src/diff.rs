//! What a change of policy makes worse than thresholds allow.

use jobtap_core::simulation::{Group, Metrics};
use serde::Serialize;

use crate::summary::{Summary, duration, percent};

/// What may become worse, and by how much.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// By how many percent the median wait of a user may grow.
    pub user_wait: f64,
    /// By how many percent the mean wait of all jobs may grow.
    pub mean_wait: f64,
    /// By how many percent the mean bounded slowdown of all jobs may grow.
    pub slowdown: f64,
    /// By how many percentage points the utilization may fall.
    pub utilization: f64,
    /// How many jobs more may not be completed.
    pub lost: u64,
    /// Waits that grow by less than this many seconds are not worse.
    pub floor: f64,
    /// Users with fewer jobs than this are not looked at.
    pub min_jobs: u64,
}

/// A figure that must not become worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Figure {
    /// Jobs that were submitted and not completed.
    #[serde(rename = "jobs not completed")]
    NotCompleted,
    /// The mean wait of all jobs.
    #[serde(rename = "mean wait")]
    MeanWait,
    /// The median wait of a user.
    #[serde(rename = "median wait")]
    MedianWait,
    /// The mean bounded slowdown of all jobs.
    #[serde(rename = "mean bounded slowdown")]
    MeanSlowdown,
    /// The share of the machine that was allocated.
    // In the spelling that programs know.
    #[serde(rename = "utilisation")]
    Utilization,
}

impl Figure {
    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Self::NotCompleted => "jobs not completed",
            Self::MeanWait => "mean wait",
            Self::MedianWait => "median wait",
            Self::MeanSlowdown => "mean bounded slowdown",
            Self::Utilization => "utilization",
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::NotCompleted => format!("{value}"),
            Self::MeanWait | Self::MedianWait => duration(value),
            Self::MeanSlowdown => format!("{value:.2}"),
            Self::Utilization => percent(value),
        }
    }
}

/// Something that became worse than allowed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// Which figure.
    pub figure: Figure,
    /// The user, if it is the figure of one user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Before.
    pub old: f64,
    /// Now.
    pub new: f64,
    /// The most, or least, that is allowed.
    pub allowed: f64,
}

impl Violation {
    /// Describes the violation for people.
    pub fn text(&self) -> String {
        let user = self.user.as_ref().map_or_else(String::new, |user| format!(" of user {user}"));
        let [old, new, allowed] =
            [self.old, self.new, self.allowed].map(|value| self.figure.shown(value));
        let name = self.figure.name();
        format!("{name}{user}: {old} before, {new} now, {allowed} allowed")
    }
}

impl Thresholds {
    /// Those of `jobtap policy diff` without options.
    pub const DEFAULT: Self = Self {
        user_wait: 20.0,
        mean_wait: 20.0,
        slowdown: 20.0,
        utilization: 2.0,
        lost: 0,
        floor: 60.0,
        min_jobs: 10,
    };

    /// Returns the figures that became worse than allowed from the old policy to the new one.
    pub fn violations(&self, old: &Metrics, new: &Metrics) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut check = |figure, user: Option<&str>, old: f64, new: f64, allowed: f64| {
            if new > allowed {
                let user = user.map(str::to_owned);
                found.push(Violation { figure, user, old, new, allowed });
            }
        };
        let more = |old: f64, percent: f64| old * (1.0 + percent / 100.0);
        let wait = |old: f64, percent: f64| more(old, percent).max(old + self.floor);
        let not_completed = |of: &Metrics| (of.submitted - of.completed.min(of.submitted)) as f64;
        let lost = not_completed(old);
        check(Figure::NotCompleted, None, lost, not_completed(new), lost + self.lost as f64);
        check(
            Figure::MeanWait,
            None,
            old.wait.mean,
            new.wait.mean,
            wait(old.wait.mean, self.mean_wait),
        );
        let slowdown = old.slowdown.mean;
        check(
            Figure::MeanSlowdown,
            None,
            slowdown,
            new.slowdown.mean,
            more(slowdown, self.slowdown),
        );
        for user in old.users.iter().filter(|user| user.jobs >= self.min_jobs) {
            let same = |other: &&Group| other.name == user.name && other.jobs > 0;
            let Some(now) = new.users.iter().find(same) else { continue };
            let (old, new) = (user.wait.median, now.wait.median);
            check(Figure::MedianWait, Some(&user.name), old, new, wait(old, self.user_wait));
        }
        let least = old.utilization - self.utilization / 100.0;
        if new.utilization < least {
            let (old, new) = (old.utilization, new.utilization);
            found.push(Violation {
                figure: Figure::Utilization,
                user: None,
                old,
                new,
                allowed: least,
            });
        }
        found
    }
}

/// The result of a comparison, for programs to read.
#[derive(Debug, Clone, Serialize)]
pub struct Difference<'a> {
    /// Whether everything is within the thresholds.
    pub passed: bool,
    /// The figures that are not.
    pub violations: &'a [Violation],
    /// All figures of both policies.
    pub summary: &'a Summary,
}

#[cfg(test)]
mod tests {
    use jobtap_core::simulation::Distribution;

    use super::*;

    fn metrics(wait: f64, slowdown: f64, users: &[(&str, u64, f64)]) -> Metrics {
        let user = |&(name, jobs, median): &(&str, u64, f64)| Group {
            name: name.to_owned(),
            jobs,
            wait: Distribution { median, ..Distribution::default() },
            ..Group::default()
        };
        Metrics {
            submitted: 100,
            completed: 100,
            utilization: 0.8,
            wait: Distribution { mean: wait, ..Distribution::default() },
            slowdown: Distribution { mean: slowdown, ..Distribution::default() },
            users: users.iter().map(user).collect(),
            ..Metrics::default()
        }
    }

    fn texts(old: &Metrics, new: &Metrics) -> Vec<String> {
        Thresholds::DEFAULT.violations(old, new).iter().map(Violation::text).collect()
    }

    #[test]
    fn what_is_worse_than_allowed_is_named() {
        let old = metrics(1000.0, 5.0, &[("1", 50, 1000.0), ("2", 50, 1000.0)]);
        let new = metrics(1300.0, 5.9, &[("1", 50, 1190.0), ("2", 50, 2000.0)]);
        let new = Metrics { utilization: 0.77, completed: 99, ..new };
        assert_eq!(
            texts(&old, &new),
            [
                "jobs not completed: 0 before, 1 now, 0 allowed",
                "mean wait: 16.7m before, 21.7m now, 20.0m allowed",
                "median wait of user 2: 16.7m before, 33.3m now, 20.0m allowed",
                "utilization: 80.00 % before, 77.00 % now, 78.00 % allowed",
            ]
        );
        assert_eq!(texts(&old, &old), [""; 0]);
    }

    #[test]
    fn short_waits_and_users_with_few_jobs_may_change() {
        let old = metrics(10.0, 1.0, &[("1", 50, 5.0), ("2", 3, 100.0)]);
        let new = metrics(60.0, 1.0, &[("1", 50, 64.0), ("2", 3, 9000.0)]);
        assert_eq!(texts(&old, &new), [""; 0]);
    }
}
