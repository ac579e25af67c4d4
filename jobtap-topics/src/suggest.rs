//! "Did you mean": the known word that a misspelt one was meant to be.

/// Returns the candidate that is near enough to `word` to be meant; case is ignored.
///
/// Near enough is a Levenshtein distance of at most a third of the word's length, and of 2 for a short
/// word. The first of equally near candidates is taken.
///
/// ```
/// # mod jobtap_core { pub use jobtap_topics::suggest; }
/// use jobtap_core::suggest::nearest;
///
/// let keys = ["half_life", "weights"];
/// assert_eq!(nearest("weigths", keys), Some("weights"));
/// assert_eq!(nearest("users", keys), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the candidate from which `word` differs by one slip: a letter that is wrong, missing or
/// superfluous, or two letters in the wrong order. A candidate of up to three letters is never
/// returned.
///
/// For names that may also be new ones, where [`nearest`] would find too many.
///
/// ```
/// # mod jobtap_core { pub use jobtap_topics::suggest; }
/// use jobtap_core::suggest::slip_of;
///
/// assert_eq!(slip_of("finsh", ["start", "finish"]), Some("finish"));
/// assert_eq!(slip_of("finished", ["start", "finish"]), None);
/// ```
pub fn slip_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let is_slip = |candidate: &&str| {
        candidate.chars().count() > 3 && strsim::osa_distance(word, candidate) == 1
    };
    known.into_iter().find(is_slip)
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
    fn one_slip_is_not_a_name_of_its_own() {
        let known = ["alloc", "finish", "urgency", "log"];
        for word in ["finnish", "fnish", "finihs", "finash"] {
            assert_eq!(slip_of(word, known), Some("finish"), "{word}");
        }
        for word in ["finish", "finished", "fish", "lag", "allocation", ""] {
            assert_eq!(slip_of(word, known), None, "{word}");
        }
    }

    #[test]
    fn takes_the_first_of_equally_near_words() {
        assert_eq!(nearest("batch", ["batch2", "batch1"]), Some("batch2"));
    }

    #[test]
    fn accepts_two_edits_in_a_short_word() {
        assert_eq!(nearest("nu", ["none"]), None);
        assert_eq!(nearest("n", ["no"]), Some("no"));
        assert_eq!(nearest("nn", ["none"]), Some("none"));
    }
}
