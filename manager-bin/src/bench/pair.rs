//! Two binaries side by side: both run `bench --json` in turns, each as a process, so that both see the same
//! load of a shared machine. The medians of their rounds are compared.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use serde::Serialize;

use super::error::{BenchError, NoReport};
use super::figures::{Better, Figure, Found, Machine, Report, VERSION, medians};
use super::measures::Part;
use super::runner::{Interrupts, Output, RunError, Wanted, machine};

/// The running binary, even if its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// One figure of both binaries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Compared {
    /// As in [`Figure`].
    pub(crate) name: String,
    /// As in [`Figure`].
    pub(crate) jobs: u64,
    /// As in [`Figure`].
    pub(crate) unit: String,
    /// As in [`Figure`].
    pub(crate) better: Better,
    /// As in [`Figure`].
    pub(crate) text: String,
    /// The median of this binary; `null` if it doesn't have the figure.
    pub(crate) this: Option<f64>,
    /// The median of the other binary.
    pub(crate) other: Option<f64>,
    /// The first over the second.
    pub(crate) ratio: Option<f64>,
    /// The values of the rounds.
    pub(crate) this_values: Vec<f64>,
    /// The values of the rounds.
    pub(crate) other_values: Vec<f64>,
}

/// The results of a whole run with two binaries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// [`VERSION`].
    pub(crate) bench: u32,
    /// The names and versions of this program and of the other.
    pub(crate) programs: [String; 2],
    /// Where they ran.
    pub(crate) machine: Machine,
    /// The figures.
    pub(crate) figures: Vec<Compared>,
    /// What the other binary can't measure, in words.
    pub(crate) missing: Vec<String>,
}

/// Measures both binaries. `tell` gets the figures of each part as soon as they are known.
///
/// # Errors
/// This binary's measurement fails, the other one can't be started at all, or the user interrupts it.
pub(crate) async fn run(
    wanted: &Wanted,
    other: &Path,
    program: String,
    mut tell: impl FnMut(&[Compared], Option<&str>) -> Result<(), RunError>,
) -> Result<Comparison, RunError> {
    let mut interrupts = Interrupts::new()?;
    let parts = if wanted.parts.is_empty() { Part::value_variants() } else { &wanted.parts };
    let mut whole = Comparison {
        bench: VERSION,
        programs: [program, other.display().to_string()],
        machine: machine(),
        figures: Vec::new(),
        missing: Vec::new(),
    };
    for part in parts {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut missing = None;
        for round in 0..wanted.rounds {
            // The order alternates, since the load of the machine may change between the first and the
            // second.
            for turn in [round % 2, (round + 1) % 2] {
                let binary = if turn == 0 { Path::new(OWN_BINARY) } else { other };
                if turn == 1 && missing.is_some() {
                    continue;
                }
                let command = command(binary, *part, wanted);
                let output = interrupts.run(command).await.map_err(|error| named(binary, error))?;
                match (read(output), turn) {
                    (Ok(report), 0) => ours.push(found(report)),
                    (Ok(report), _) => {
                        whole.programs[1] = format!("{} ({})", report.program, other.display());
                        theirs.push(found(report));
                    }
                    (Err(reason), 0) => return Err(BenchError::from(reason).into()),
                    (Err(reason), _) => {
                        let other = other.display();
                        missing =
                            Some(format!("{other} doesn't measure {}: {reason}", name(*part)));
                    }
                }
            }
        }
        let figures = compared(medians(ours).figures, medians(theirs).figures);
        tell(&figures, missing.as_deref())?;
        whole.figures.extend(figures);
        whole.missing.extend(missing);
    }
    Ok(whole)
}

fn named(binary: &Path, error: RunError) -> RunError {
    match error {
        RunError::Failed(error) => {
            BenchError::NotRun { binary: binary.to_owned(), error: error.into() }.into()
        }
        RunError::Interrupted => RunError::Interrupted,
    }
}

fn name(part: Part) -> String {
    part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// One round of one part.
fn command(binary: &Path, part: Part, wanted: &Wanted) -> Command {
    let mut command = Command::new(binary);
    command.args(["bench", "--json", "--rounds=1"]).arg(name(part));
    if wanted.full {
        command.arg("--full");
    }
    if !wanted.jobs.is_empty() {
        let jobs: Vec<String> = wanted.jobs.iter().map(u64::to_string).collect();
        command.arg(format!("--jobs={}", jobs.join(",")));
    }
    command
}

/// The report that a binary printed.
fn read(output: Output) -> Result<Report, NoReport> {
    if !output.success {
        let last = output.err.lines().rev().find(|line| !line.trim().is_empty());
        return Err(match last {
            Some(line) => NoReport::Failed(line.trim().to_owned()),
            None => NoReport::FailedSilently,
        });
    }
    let report: Report = serde_json::from_str(&output.out).map_err(NoReport::Unreadable)?;
    match report.bench {
        VERSION => Ok(report),
        other => Err(NoReport::OtherForm(other)),
    }
}

fn found(report: Report) -> Found {
    Found { figures: report.figures, skipped: report.skipped }
}

/// Matches the figures of both by name and number of jobs: first those of this binary, then those that only
/// the other has.
fn compared(ours: Vec<Figure>, mut theirs: Vec<Figure>) -> Vec<Compared> {
    let mut figures = Vec::new();
    for figure in ours {
        let same = |other: &Figure| other.name == figure.name && other.jobs == figure.jobs;
        let other = theirs.iter().position(same).map(|index| theirs.remove(index));
        figures.push(both(Some(figure), other));
    }
    figures.extend(theirs.into_iter().map(|figure| both(None, Some(figure))));
    figures.into_iter().flatten().collect()
}

fn both(this: Option<Figure>, other: Option<Figure>) -> Option<Compared> {
    let value = |figure: &Option<Figure>| figure.as_ref().map(|figure| figure.value);
    let values = |figure: &Option<Figure>| {
        figure.as_ref().map(|figure| figure.values.clone()).unwrap_or_default()
    };
    let (this_value, other_value) = (value(&this), value(&other));
    let (this_values, other_values) = (values(&this), values(&other));
    let Figure { name, jobs, unit, better, text, .. } = this.or(other)?;
    let ratio = match (this_value, other_value) {
        (Some(this), Some(other)) if other != 0.0 => Some(this / other),
        _ => None,
    };
    let (this, other) = (this_value, other_value);
    Some(Compared { name, jobs, unit, better, text, this, other, ratio, this_values, other_values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[(&str, u64, f64)]) -> Vec<Figure> {
        let mut found = Found::default();
        for (name, jobs, value) in values {
            found.more(name, *jobs, *value, "jobs/s", "");
        }
        found.figures
    }

    #[test]
    fn figures_that_one_side_lacks_are_missing() {
        let ours = figures(&[("a", 10, 3.0), ("a", 100, 5.0), ("new", 10, 1.0)]);
        let theirs = figures(&[("old", 10, 1.0), ("a", 10, 2.0), ("a", 100, 0.0)]);
        let found: Vec<_> = compared(ours, theirs)
            .into_iter()
            .map(|one| (one.name, one.jobs, one.this, one.other, one.ratio))
            .collect();
        let expected = [
            ("a", 10, Some(3.0), Some(2.0), Some(1.5)),
            ("a", 100, Some(5.0), Some(0.0), None),
            ("new", 10, Some(1.0), None, None),
            ("old", 10, None, Some(1.0), None),
        ];
        assert_eq!(found, expected.map(|(name, jobs, a, b, c)| (name.to_owned(), jobs, a, b, c)));
    }

    #[test]
    fn another_form_of_figures_is_not_compared() {
        let output = |success, out: &str, err: &str| {
            let read = read(Output { success, out: out.to_owned(), err: err.to_owned() });
            read.unwrap_err().to_string()
        };
        let refused =
            output(false, "", "usage: x\nx-bench: error: unrecognized arguments: --json\n");
        assert_eq!(refused, "x-bench: error: unrecognized arguments: --json");
        let newer = r#"{"bench": 2, "program": "x", "figures": []}"#;
        assert_eq!(output(true, newer, ""), "it prints form 2 of figures, and this is form 1");
        assert!(output(true, "memory: 7", "").starts_with("it prints another form of figures: "));
    }
}
