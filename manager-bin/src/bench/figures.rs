//! The results of measurements, and the JSON form in which `bench --json` prints them.
//!
//! The form is stable: programs keep it beside their releases, and `bench --pair` compares binaries of
//! different versions with it. A figure is identified by its name and its number of jobs. Figures may be
//! added; one whose meaning changes gets another name.

use serde::{Deserialize, Serialize};

/// The version of the JSON form. Another version can't be compared with this one.
pub(crate) const VERSION: u32 = 1;

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// A rate.
    More,
    /// A time, or an amount of memory.
    Less,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// `PART.WHAT`, such as `submit.one.rate`.
    pub(crate) name: String,
    /// How many jobs were measured.
    pub(crate) jobs: u64,
    /// The median of all rounds.
    pub(crate) value: f64,
    /// The unit of the value, such as `jobs/s`. Empty for a ratio.
    pub(crate) unit: String,
    /// Which way it improves.
    pub(crate) better: Better,
    /// What it means, in a few words.
    pub(crate) text: String,
    /// The value of each round.
    #[serde(default)]
    pub(crate) values: Vec<f64>,
}

/// A part that this binary or this machine can't measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    /// The figures that are missing, such as `callbacks.lua`.
    pub(crate) name: String,
    /// Why.
    pub(crate) reason: String,
}

/// The machine and the file system of the measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// How many processors this process may use.
    pub(crate) cpus: u64,
    /// The system's kernel.
    pub(crate) kernel: String,
    /// Where the stores were.
    pub(crate) directory: String,
    /// The type of its file system.
    pub(crate) filesystem: String,
}

/// The results of a whole run of `bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`VERSION`].
    pub(crate) bench: u32,
    /// The name and version of the program.
    pub(crate) program: String,
    /// Where it ran.
    #[serde(default)]
    pub(crate) machine: Machine,
    /// The figures in the order in which they were measured.
    pub(crate) figures: Vec<Figure>,
    /// What could not be measured.
    #[serde(default)]
    pub(crate) skipped: Vec<Skipped>,
}

/// The results of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Its figures.
    pub(crate) figures: Vec<Figure>,
    /// What it could not measure.
    pub(crate) skipped: Vec<Skipped>,
}

impl Found {
    /// Adds a figure that is better if it is higher.
    pub(super) fn more(&mut self, name: &str, jobs: u64, value: f64, unit: &str, text: &str) {
        self.add(name, jobs, value, unit, Better::More, text);
    }

    /// Adds a figure that is better if it is lower.
    pub(super) fn less(&mut self, name: &str, jobs: u64, value: f64, unit: &str, text: &str) {
        self.add(name, jobs, value, unit, Better::Less, text);
    }

    /// Records that something can't be measured.
    pub(super) fn skip(&mut self, name: &str, reason: impl ToString) {
        self.skipped.push(Skipped { name: name.to_owned(), reason: reason.to_string() });
    }

    fn add(&mut self, name: &str, jobs: u64, value: f64, unit: &str, better: Better, text: &str) {
        // JSON has only finite numbers, and any other figure would have no meaning.
        let value = if value.is_finite() { value } else { 0.0 };
        let (name, unit, text) = (name.to_owned(), unit.to_owned(), text.to_owned());
        self.figures.push(Figure { name, jobs, value, unit, better, text, values: vec![value] });
    }
}

/// Joins the rounds of one measurement: each figure becomes the median of its values.
pub(crate) fn medians(rounds: Vec<Found>) -> Found {
    let mut joined = Found::default();
    for round in rounds {
        for figure in round.figures {
            let known = joined
                .figures
                .iter_mut()
                .find(|known| known.name == figure.name && known.jobs == figure.jobs);
            match known {
                Some(known) => known.values.extend(figure.values),
                None => joined.figures.push(figure),
            }
        }
        for skipped in round.skipped {
            if !joined.skipped.contains(&skipped) {
                joined.skipped.push(skipped);
            }
        }
    }
    for figure in &mut joined.figures {
        figure.value = median(&figure.values);
    }
    joined
}

/// The median of these values; 0 if there are none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    if sorted.len().is_multiple_of(2) {
        (at(middle.saturating_sub(1)) + at(middle)) / 2.0
    } else {
        at(middle)
    }
}

/// The value that this share of the values doesn't exceed. Sorts the values.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A number of jobs as it is written on the command line: `10k`, `1M`.
pub(crate) fn count(jobs: u64) -> String {
    match jobs {
        0 => "0".to_owned(),
        _ if jobs.is_multiple_of(1_000_000) => format!("{}M", jobs / 1_000_000),
        _ if jobs.is_multiple_of(1_000) => format!("{}k", jobs / 1_000),
        _ => jobs.to_string(),
    }
}

/// A number of bytes in MiB or GiB.
pub(crate) fn bytes(number: u64) -> String {
    const GIB: f64 = (1_u64 << 30) as f64;
    const MIB: f64 = (1_u64 << 20) as f64;
    let number = number as f64;
    if number >= GIB {
        format!("{:.1} GiB", number / GIB)
    } else {
        format!("{:.0} MiB", (number / MIB).max(1.0))
    }
}

/// A value with only its significant decimals.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_joined_by_name_and_number_of_jobs() {
        let round = |ten: f64, hundred: f64| {
            let mut found = Found::default();
            found.more("a.rate", 10, ten, "jobs/s", "");
            found.more("a.rate", 100, hundred, "jobs/s", "");
            found.skip("a.lua", "not linked");
            found
        };
        let joined = medians(vec![round(1.0, 10.0), round(3.0, 30.0), round(2.0, 20.0)]);
        let values: Vec<_> =
            joined.figures.iter().map(|figure| (figure.jobs, figure.value)).collect();
        assert_eq!(values, [(10, 2.0), (100, 20.0)]);
        assert_eq!(joined.figures[0].values, [1.0, 3.0, 2.0]);
        assert_eq!(joined.skipped.len(), 1);
    }

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[4.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let mut values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.5), 500.0);
        assert_eq!(quantile(&mut values, 0.999), 999.0);
        assert_eq!(quantile(&mut [7.0], 0.99), 7.0);
        assert_eq!(quantile(&mut [], 0.99), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [1, 999, 10_000, 2_000_000, 1_500].map(count),
            ["1", "999", "10k", "2M", "1500"]
        );
        assert_eq!(
            [0.0, 0.01234, 0.5, 12.34, 7412.6].map(shown),
            ["0", "0.0123", "0.50", "12.3", "7413"]
        );
    }
}
