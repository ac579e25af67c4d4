//! Utilization and queue length over time, as averages over equal parts of the simulated time.

use jobtap_core::simulation::Results;
use serde::{Deserialize, Serialize};

/// How many parts there are.
const PARTS: usize = 240;

/// Averages over equal parts of the simulated time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// When the first part begins, in seconds from the start of the trace.
    pub from: f64,
    /// The length of a part in seconds.
    pub step: f64,
    /// The share of the machine that was allocated.
    pub utilization: Vec<f64>,
    /// How many jobs were pending.
    pub pending: Vec<f64>,
}

impl Series {
    /// The series of a simulation.
    pub fn from_results(results: &Results) -> Self {
        let first = results.jobs.first().map_or(0.0, |job| job.submit);
        let last = results.jobs.iter().filter_map(|job| job.freed).fold(first, f64::max);
        let step = (last.max(results.end.min(last + 1.0)) - first).max(1.0) / PARTS as f64;
        let mut series =
            Self { from: first, step, utilization: vec![0.0; PARTS], pending: vec![0.0; PARTS] };
        for job in &results.jobs {
            if job.refused {
                continue;
            }
            let end = results.end;
            let gone = job.allocated.or(job.freed).unwrap_or(end);
            spread(&mut series.pending, (job.submit - first) / step, (gone - first) / step, 1.0);
            if let Some(from) = job.allocated {
                let until = job.freed.unwrap_or(end);
                let share = job.cores as f64 / results.cores.max(1) as f64;
                spread(
                    &mut series.utilization,
                    (from - first) / step,
                    (until - first) / step,
                    share,
                );
            }
        }
        series
    }
}

/// Adds a value to the parts from one position to another, to the first and the last part in proportion to
/// how much of them is covered.
fn spread(parts: &mut [f64], from: f64, to: f64, value: f64) {
    let last = parts.len() as f64;
    let (from, to) = (from.clamp(0.0, last), to.clamp(0.0, last));
    let first = from as usize;
    for (index, part) in parts.iter_mut().enumerate().skip(first) {
        let begin = index as f64;
        if begin >= to {
            break;
        }
        *part += value * (to.min(begin + 1.0) - from.max(begin));
    }
}

/// A line of characters that shows the course of a series, from 0 to its greatest value, or to `most`.
pub(crate) fn sparkline(values: &[f64], most: Option<f64>, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = values.len().div_ceil(width.max(1)).max(1);
    let means = values.chunks(each).map(|part| part.iter().sum::<f64>() / part.len() as f64);
    let means: Vec<f64> = means.collect();
    let most = most.unwrap_or_else(|| means.iter().copied().fold(0.0, f64::max));
    let level = |mean: &f64| {
        let share = if most > 0.0 { mean / most } else { 0.0 };
        let index = (share * LEVELS.len() as f64).clamp(0.0, 7.0) as usize;
        LEVELS.get(index).copied().unwrap_or(' ')
    };
    means.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_spread_over_parts_by_its_share_of_them() {
        let mut parts = [0.0; 4];
        spread(&mut parts, 0.5, 2.25, 8.0);
        assert_eq!(parts, [4.0, 8.0, 2.0, 0.0]);
        spread(&mut parts, 3.5, 9.0, 2.0);
        assert_eq!(parts[3], 1.0);
    }

    #[test]
    fn a_sparkline_shows_low_and_high() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], Some(1.0), 3), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0], None, 2), "▁▁");
        assert_eq!(sparkline(&[1.0, 3.0, 8.0, 8.0], None, 2), "▃█");
        assert_eq!(sparkline(&[], None, 10), "");
    }
}
