//! "Did you mean": the nearest known word to a misspelt one, for every message that names a word
//! nobody knows: keys of the configuration, queues, plugins, topics.

/// The candidate that is near enough to `word` to be meant, by edit distance; case is ignored.
///
/// Near enough is a third of the word's length, and two edits in a short word. The first of equally
/// near candidates is taken.
///
/// ```
/// use jobtap_core::suggest::nearest;
///
/// let keys = ["half_life", "weights"];
/// assert_eq!(nearest("weigths", keys), Some("weights"));
/// assert_eq!(nearest("users", keys), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, case ignored.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, above) in b.iter().zip(row.iter().skip(1)) {
            let cost = usize::from(x != *y);
            left = (diagonal + cost).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_word_that_was_meant() {
        let known = ["job.state.run", "job.state.sched", "job.validate"];
        assert_eq!(nearest("job.stat.run", known), Some("job.state.run"));
        assert_eq!(nearest("job.Validate", known), Some("job.validate"));
        assert_eq!(nearest("prolog", known), None);
        assert_eq!(nearest("prolog", []), None);
    }

    #[test]
    fn takes_the_first_of_equally_near_words() {
        assert_eq!(nearest("batch", ["batch2", "batch1"]), Some("batch2"));
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }
}
