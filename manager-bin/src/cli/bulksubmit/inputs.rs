//! The inputs of `bulksubmit`, which are lists: words after `:::`, the contents of files after `::::`, or
//! standard input. Each combination of their values is a job.

use std::io;

use crate::cli::submit::error::ArgError;

/// A list of inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    values: Vec<String>,
    /// Combined job by job with the other lists (`:::+`), not as a product.
    linked: bool,
}

/// The arguments of the command line: a command and lists of inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inputs {
    /// The words before the first list; `{}` without any.
    pub(super) command: Vec<String>,
    sources: Vec<Source>,
}

/// Splits the text of a file at each `separator`, or at white space if it is `none`. Drops empty inputs.
fn split(text: &str, separator: &str) -> Vec<String> {
    let parts: Vec<&str> = match separator.to_ascii_lowercase().as_str() {
        "none" => text.split_whitespace().collect(),
        _ => text.split(separator).collect(),
    };
    parts.into_iter().filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

impl Inputs {
    /// Parses the words of the command line. `read` returns the text of a file; the file `-` is standard
    /// input, which is also read if there is no list.
    ///
    /// # Errors
    /// [`ArgError::File`] if a file can't be read.
    pub(super) fn parse(
        words: &[String],
        separator: &str,
        mut read: impl FnMut(&str) -> io::Result<String>,
    ) -> Result<Self, ArgError> {
        let mut read = |name: &str| {
            let text = read(name).map_err(|error| ArgError::file(name, &error))?;
            Ok::<_, ArgError>(split(&text, separator))
        };
        let mut inputs = Self { command: Vec::new(), sources: Vec::new() };
        let mut in_files = false;
        for word in words {
            let mark = match word.as_str() {
                ":::" => Some((false, false)),
                ":::+" => Some((false, true)),
                "::::" => Some((true, false)),
                "::::+" => Some((true, true)),
                _ => None,
            };
            match (mark, inputs.sources.last_mut()) {
                (Some((files, linked)), _) => {
                    in_files = files;
                    inputs.sources.push(Source { values: Vec::new(), linked });
                }
                (None, None) => inputs.command.push(word.clone()),
                (None, Some(source)) if in_files => source.values.extend(read(word)?),
                (None, Some(source)) => source.values.push(word.clone()),
            }
        }
        if inputs.sources.is_empty() {
            inputs.sources.push(Source { values: read("-")?, linked: false });
        }
        if inputs.command.is_empty() {
            inputs.command.push("{}".to_owned());
        }
        Ok(inputs)
    }

    /// The values of all lists.
    pub(super) fn values(&self) -> impl Iterator<Item = &String> {
        self.sources.iter().flat_map(|source| &source.values)
    }

    /// The number of jobs: of combinations of the lists that aren't linked.
    pub(super) fn count(&self) -> usize {
        let mut free = self.sources.iter().filter(|source| !source.linked).peekable();
        // Without such a list there is none for the linked lists to advance with. A linked list without values has none
        // for any job.
        if free.peek().is_none() || self.sources.iter().any(|source| source.values.is_empty()) {
            return 0;
        }
        free.fold(1, |count, source| count.saturating_mul(source.values.len()))
    }

    /// The inputs of the job with this number, below [`count`](Self::count): of every combination of the lists that
    /// aren't linked, the last one changing fastest. Linked lists add no jobs: as in Flux, they advance by one value with
    /// each job, and start again at their end.
    pub(super) fn combination(&self, number: usize) -> Vec<&str> {
        // The number of consecutive jobs with the same value of a list.
        let mut same = self.count();
        let value = |source: &'_ Source| {
            let length = source.values.len().max(1);
            let at = if source.linked {
                number
            } else {
                same /= length;
                // Never divides by 0, even if the count has saturated.
                number / same.max(1)
            };
            at % length
        };
        let places: Vec<usize> = self.sources.iter().map(value).collect();
        let texts = self.sources.iter().zip(places);
        texts.filter_map(|(source, at)| source.values.get(at).map(String::as_str)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str, separator: &str) -> Inputs {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let read = |name: &str| match name {
            "-" => Ok("from stdin\nsecond\n\n".to_owned()),
            "f" => Ok("1,2,3".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        Inputs::parse(&words, separator, read).unwrap()
    }

    fn jobs(words: &str) -> Vec<String> {
        let inputs = parsed(words, ",");
        (0..inputs.count()).map(|job| inputs.combination(job).join(" ")).collect()
    }

    #[test]
    fn lists_form_a_product_or_are_linked() {
        assert_eq!(jobs("x ::: a b ::: 1 2"), ["a 1", "a 2", "b 1", "b 2"]);
        assert_eq!(jobs("x ::: a b c :::+ 1 2"), ["a 1", "b 2", "c 1"]);
        assert_eq!(jobs("x ::: a b :::+ 1 2 ::: z"), ["a 1 z", "b 2 z"]);
        let product = ["a 1 y", "a 2 z", "b 1 y", "b 2 z"];
        assert_eq!(jobs("x ::: a b :::+ 1 2 ::: y z"), product);
        assert_eq!(jobs("x ::: a b ::: x y :::+ 1 2 3"), ["a x 1", "a y 2", "b x 3", "b y 1"]);
        assert_eq!(jobs("x :::: f"), ["1", "2", "3"]);
        assert_eq!(jobs("x ::: a b :::+ 1 2 3"), ["a 1", "b 2"]);
        assert_eq!(jobs("x ::: a ::::+ f"), ["a 1"]);
        assert_eq!(jobs("x ::: a :::"), [""; 0]);
        assert_eq!(jobs("x ::: a :::+"), [""; 0]);
        assert_eq!(jobs("x :::+ a b"), [""; 0]);
    }

    #[test]
    fn without_a_list_standard_input_is_read() {
        let inputs = parsed("", "\n");
        assert_eq!(inputs.command, ["{}"]);
        assert_eq!(inputs.count(), 2);
        assert_eq!([inputs.combination(0), inputs.combination(1)], [["from stdin"], ["second"]]);
        assert_eq!(parsed("echo", "none").count(), 3);
        assert_eq!(parsed("echo {} ::: a", "\n").command, ["echo", "{}"]);
    }

    #[test]
    fn a_missing_file_is_named_in_the_error() {
        let words = ["::::".to_owned(), "nosuch".to_owned()];
        let missing = |_: &str| Err(io::Error::from_raw_os_error(2));
        let error = Inputs::parse(&words, "\n", missing).unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory: 'nosuch'");
    }
}
