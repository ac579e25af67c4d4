//! The inputs of `bulksubmit`, for fuzzers.

use super::inputs::Inputs;

/// Reads a file of inputs with this separator, combines them with two words, and returns the number of jobs.
///
/// # Panics
/// A job lacks an input.
pub fn inputs(text: &str, separator: &str) -> usize {
    let words = ["{}", "::::", "file", ":::", "a", "b", ":::+", "1", "2", "3"].map(str::to_owned);
    let read = Inputs::parse(&words, separator, |_| Ok(text.to_owned()));
    let Ok(inputs) = read else { return 0 };
    let count = inputs.count();
    for number in [0, count / 2, count.saturating_sub(1)].into_iter().take(count) {
        assert_eq!(inputs.combination(number).len(), 3, "job {number} lacks an input");
    }
    count
}
