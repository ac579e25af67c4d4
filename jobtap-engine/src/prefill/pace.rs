//! How short jobs are at present, and so how many of them should be handed over ahead.

/// How long it takes on a busy host until a line is filled up again, in seconds: the shepherd gathers what it reports, and
/// the manager needs its turn, a sync and the way back. A line has to last for longer than that.
const ROUND_TRIP: f64 = 0.04;

/// Jobs that run for longer gain nothing.
const SHORT: f64 = 0.1;

/// The longest line. A node has to forget it when something changes.
const MOST: usize = 16;

/// The weight of the last job.
const WEIGHT: f64 = 0.125;

/// A moving average of the time that jobs run, in seconds; none before the first job has ended.
#[derive(Debug, Default)]
pub(super) struct Pace(Option<f64>);

impl Pace {
    /// Notes how long a job has run.
    pub(super) fn note(&mut self, seconds: f64) {
        let seconds = seconds.max(0.0);
        self.0 = Some(self.0.map_or(seconds, |mean| mean + (seconds - mean) * WEIGHT));
    }

    /// How many jobs may be handed over behind one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most `MOST`")]
    pub(super) fn depth(&self) -> usize {
        match self.0 {
            Some(mean) if mean <= SHORT => {
                (ROUND_TRIP / mean).ceil().clamp(1.0, MOST as f64) as usize
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(times: &[f64]) -> usize {
        let mut pace = Pace::default();
        times.iter().for_each(|seconds| pace.note(*seconds));
        pace.depth()
    }

    #[test]
    fn the_shorter_jobs_are_the_longer_is_a_line() {
        assert_eq!(depth_of(&[]), 0, "nothing is known");
        assert_eq!(depth_of(&[0.0]), MOST);
        assert_eq!(depth_of(&[0.005]), 8);
        assert_eq!(depth_of(&[0.09]), 1);
        assert_eq!(depth_of(&[10.0]), 0);
    }

    #[test]
    fn one_long_job_ends_lines_until_many_short_ones_have_ended() {
        let mut times = vec![0.001; 100];
        times.push(60.0);
        assert_eq!(depth_of(&times), 0);
        times.extend([0.001; 80]);
        assert_eq!(depth_of(&times), MOST);
    }
}
