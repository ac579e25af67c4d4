//! Lua's patterns, with a limit on the steps that a match may take.
//!
//! A short pattern can take years on a short text, and Lua's own matcher can't be interrupted meanwhile.
//! This one asks a [`Budget`] now and then whether it may go on.

use thiserror::Error;

/// A limit on the steps of a match.
pub(super) trait Budget {
    /// Charges these steps to the budget.
    ///
    /// # Errors
    /// The limit is reached.
    fn spend(&mut self, steps: u64) -> Result<(), PatternError>;
}

/// Why a match could not be decided. The texts are Lua's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum PatternError {
    #[error("malformed pattern (ends with '%')")]
    EndsWithPercent,
    #[error("malformed pattern (missing ']')")]
    MissingBracket,
    #[error("malformed pattern (missing arguments to '%b')")]
    MissingArguments,
    #[error("missing '[' after '%f' in pattern")]
    MissingSet,
    #[error("invalid pattern capture")]
    InvalidCapture,
    #[error("invalid capture index")]
    InvalidCaptureIndex,
    #[error("unfinished capture")]
    UnfinishedCapture,
    #[error("too many captures")]
    TooManyCaptures,
    #[error("pattern too complex")]
    TooComplex,
    /// A limit of the script is reached; the script gets the text of that limit instead.
    #[error("limit reached")]
    Limit,
}

/// A part of the subject that a pattern captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Text that begins at `start`.
    Text { start: usize, length: usize },
    /// The place itself, by `()`.
    Position(usize),
}

/// A match: where it begins and ends, and its captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

const MAX_CAPTURES: usize = 32;
/// How deep a match may nest. Each level is a recursive call on the native stack.
const MAX_DEPTH: u32 = 200;
/// The number of steps between two requests to the budget.
const STEPS_AT_ONCE: u64 = 4096;

/// Finds the first match at or after `from`; only at `from` itself if `anchored`.
pub(super) fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    anchored: bool,
    budget: &mut dyn Budget,
) -> Result<Option<Match>, PatternError> {
    let mut matcher =
        Matcher { subject, pattern, captures: Vec::new(), depth: 0, steps: 0, budget };
    let mut start = from;
    let found = loop {
        matcher.captures.clear();
        if let Some(end) = matcher.run(start, 0)? {
            break Some(end);
        }
        start += 1;
        if anchored || start > subject.len() {
            break None;
        }
    };
    let (steps, open) = (matcher.steps, std::mem::take(&mut matcher.captures));
    budget.spend(steps)?;
    let Some(end) = found else { return Ok(None) };
    let captures = open.into_iter().map(Open::finished).collect::<Result<_, _>>()?;
    Ok(Some(Match { start, end, captures }))
}

/// A capture during a match.
#[derive(Debug, Clone, Copy)]
struct Open {
    start: usize,
    length: Length,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Unfinished,
    Position,
    Bytes(usize),
}

impl Open {
    fn finished(self) -> Result<Capture, PatternError> {
        match self.length {
            Length::Bytes(length) => Ok(Capture::Text { start: self.start, length }),
            Length::Position => Ok(Capture::Position(self.start)),
            Length::Unfinished => Err(PatternError::UnfinishedCapture),
        }
    }
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Open>,
    depth: u32,
    steps: u64,
    budget: &'a mut dyn Budget,
}

/// Where a match ends; `None` without a match.
type End = Result<Option<usize>, PatternError>;

impl Matcher<'_> {
    fn step(&mut self) -> Result<(), PatternError> {
        self.steps += 1;
        if self.steps < STEPS_AT_ONCE {
            return Ok(());
        }
        self.budget.spend(std::mem::take(&mut self.steps))
    }

    fn pattern_at(&self, place: usize) -> Option<u8> {
        self.pattern.get(place).copied()
    }

    /// Matches the rest of the pattern at `place` against the rest of the subject at `at`, one level deeper.
    fn run(&mut self, at: usize, place: usize) -> End {
        if self.depth == MAX_DEPTH {
            return Err(PatternError::TooComplex);
        }
        self.depth += 1;
        let end = self.sequence(at, place);
        self.depth -= 1;
        end
    }

    fn sequence(&mut self, mut at: usize, mut place: usize) -> End {
        loop {
            self.step()?;
            let Some(item) = self.pattern_at(place) else { return Ok(Some(at)) };
            match (item, self.pattern_at(place + 1)) {
                (b'(', Some(b')')) => return self.capture(at, place + 2, Length::Position),
                (b'(', _) => return self.capture(at, place + 1, Length::Unfinished),
                (b')', _) => return self.close(at, place + 1),
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balanced(at, place + 2)? {
                    None => return Ok(None),
                    Some(end) => (at, place) = (end, place + 4),
                },
                (b'%', Some(b'f')) => {
                    let set = place + 2;
                    if self.pattern_at(set) != Some(b'[') {
                        return Err(PatternError::MissingSet);
                    }
                    let end = self.item_end(set)?;
                    let before = at.checked_sub(1).and_then(|at| self.subject.get(at).copied());
                    let after = self.subject.get(at).copied().unwrap_or(0);
                    let outside = !self.in_set(before.unwrap_or(0), set, end);
                    if !(outside && self.in_set(after, set, end)) {
                        return Ok(None);
                    }
                    place = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.same_again(at, digit)? {
                    None => return Ok(None),
                    Some(end) => (at, place) = (end, place + 2),
                },
                _ => {
                    let end = self.item_end(place)?;
                    match self.pattern_at(end) {
                        Some(b'?') => {
                            if self.single(at, place, end)
                                && let Some(found) = self.run(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            place = end + 1;
                        }
                        Some(b'*') => return self.most(at, place, end),
                        Some(b'+') => {
                            return match self.single(at, place, end) {
                                true => self.most(at + 1, place, end),
                                false => Ok(None),
                            };
                        }
                        Some(b'-') => return self.least(at, place, end),
                        _ if self.single(at, place, end) => (at, place) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Matches as many repetitions as possible.
    fn most(&mut self, at: usize, item: usize, end: usize) -> End {
        let mut count = 0;
        while self.single(at + count, item, end) {
            self.step()?;
            count += 1;
        }
        for count in (0..=count).rev() {
            if let Some(found) = self.run(at + count, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Matches as few repetitions as possible.
    fn least(&mut self, mut at: usize, item: usize, end: usize) -> End {
        loop {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn capture(&mut self, at: usize, place: usize, length: Length) -> End {
        if self.captures.len() == MAX_CAPTURES {
            return Err(PatternError::TooManyCaptures);
        }
        let level = self.captures.len();
        self.captures.push(Open { start: at, length });
        let end = self.run(at, place)?;
        if end.is_none() {
            self.captures.truncate(level);
        }
        Ok(end)
    }

    fn close(&mut self, at: usize, place: usize) -> End {
        let open = self.captures.iter().rposition(|open| open.length == Length::Unfinished);
        let level = open.ok_or(PatternError::InvalidCapture)?;
        self.set_length(level, |start| Length::Bytes(at - start));
        let end = self.run(at, place)?;
        if end.is_none() {
            self.set_length(level, |_| Length::Unfinished);
        }
        Ok(end)
    }

    fn set_length(&mut self, level: usize, length: impl FnOnce(usize) -> Length) {
        if let Some(open) = self.captures.get_mut(level) {
            open.length = length(open.start);
        }
    }

    /// `%bxy`: from an `x` to the `y` that balances it.
    fn balanced(&mut self, at: usize, place: usize) -> End {
        let (Some(open), Some(close)) = (self.pattern_at(place), self.pattern_at(place + 1)) else {
            return Err(PatternError::MissingArguments);
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        let mut end = at + 1;
        while let Some(byte) = self.subject.get(end).copied() {
            self.step()?;
            end += 1;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(end));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: the same text that a capture has matched.
    fn same_again(&mut self, at: usize, digit: u8) -> End {
        let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let open = self.captures.get(level).ok_or(PatternError::InvalidCaptureIndex)?;
        let Length::Bytes(length) = open.length else {
            return Err(PatternError::InvalidCaptureIndex);
        };
        let captured = self.subject.get(open.start..open.start + length);
        let here = self.subject.get(at..at + length);
        Ok((captured == here && here.is_some()).then_some(at + length))
    }

    /// The place after a single item: a character, a class, or a set.
    fn item_end(&self, place: usize) -> Result<usize, PatternError> {
        match self.pattern_at(place) {
            Some(b'%') => match self.pattern_at(place + 1) {
                None => Err(PatternError::EndsWithPercent),
                Some(_) => Ok(place + 2),
            },
            Some(b'[') => {
                let mut end = place + 1;
                if self.pattern_at(end) == Some(b'^') {
                    end += 1;
                }
                // A `]` that comes first is a member of the set.
                loop {
                    let byte = self.pattern_at(end).ok_or(PatternError::MissingBracket)?;
                    end += 1;
                    if byte == b'%' {
                        end += 1;
                    }
                    if self.pattern_at(end) == Some(b']') {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(place + 1),
        }
    }

    /// Whether the byte of the subject at `at` matches the item between `place` and `end`.
    fn single(&self, at: usize, place: usize, end: usize) -> bool {
        let Some(byte) = self.subject.get(at).copied() else { return false };
        match (self.pattern_at(place), self.pattern_at(place + 1)) {
            (Some(b'.'), _) => true,
            (Some(b'%'), Some(class)) => in_class(byte, class),
            (Some(b'['), _) => self.in_set(byte, place, end),
            (Some(literal), _) => literal == byte,
            (None, _) => false,
        }
    }

    /// Whether a byte is in the set that begins at `place` and ends before `end`.
    fn in_set(&self, byte: u8, place: usize, end: usize) -> bool {
        let mut at = place + 1;
        let complement = self.pattern_at(at) == Some(b'^');
        if complement {
            at += 1;
        }
        let last = end.saturating_sub(1);
        while at < last {
            let (Some(first), next) = (self.pattern_at(at), self.pattern_at(at + 1)) else { break };
            let found = match (first, next, self.pattern_at(at + 2)) {
                (b'%', Some(class), _) => {
                    at += 2;
                    in_class(byte, class)
                }
                (low, Some(b'-'), Some(high)) if at + 2 < last => {
                    at += 3;
                    (low..=high).contains(&byte)
                }
                _ => {
                    at += 1;
                    first == byte
                }
            };
            if found {
                return !complement;
            }
        }
        complement
    }
}

/// Whether a byte is in a class such as `%d`. After `%`, a character that is no class stands for itself.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Steps(u64);

    impl Budget for Steps {
        fn spend(&mut self, steps: u64) -> Result<(), PatternError> {
            self.0 = self.0.checked_sub(steps).ok_or(PatternError::Limit)?;
            Ok(())
        }
    }

    fn matched(subject: &str, pattern: &str) -> Result<Option<Vec<String>>, PatternError> {
        let anchored = pattern.starts_with('^');
        let pattern = pattern.trim_start_matches('^');
        let mut budget = Steps(1_000_000);
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, anchored, &mut budget)?;
        Ok(found.map(|found| {
            let whole = subject[found.start..found.end].to_owned();
            let capture = |capture: &Capture| match *capture {
                Capture::Text { start, length } => subject[start..start + length].to_owned(),
                Capture::Position(at) => format!("@{at}"),
            };
            std::iter::once(whole).chain(found.captures.iter().map(capture)).collect()
        }))
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (subject, pattern, found) in [
            ("gpu:a100:4", "gpu:(%w+):(%d+)", vec!["gpu:a100:4", "a100", "4"]),
            ("gres/gpu=2", "gpu=?(%d*)", vec!["gpu=2", "2"]),
            ("a,b,c", "([^,]*),", vec!["a,", "a"]),
            ("key = value", "^(%S+)%s*=%s*(%S+)$", vec!["key = value", "key", "value"]),
            ("x(1(2)3)y", "%b()", vec!["(1(2)3)"]),
            ("THE (quick) fox", "%f[%a]%a+", vec!["THE"]),
            ("abcabc", "(abc)%1", vec!["abcabc", "abc"]),
            ("aXb", "()X()", vec!["X", "@1", "@2"]),
            ("[x]-y", "[]%-]+", vec!["]-"]),
            ("a-z", "[a%-z]+", vec!["a-z"]),
            ("aaa", "a-$", vec!["aaa"]),
            ("aaa", "^a-", vec![""]),
            ("é", "[\u{80}-\u{ff}]*", vec!["é"]),
            ("$5", "$5", vec!["$5"]),
        ] {
            let found = found.into_iter().map(str::to_owned).collect();
            assert_eq!(matched(subject, pattern), Ok(Some(found)), "{subject} {pattern}");
        }
        for (subject, pattern) in
            [("abc", "^b"), ("abc", "%d"), ("ab", "a$"), ("", "."), ("x", "%bxy")]
        {
            assert_eq!(matched(subject, pattern), Ok(None), "{subject} {pattern}");
        }
    }

    #[test]
    fn malformed_patterns_have_the_texts_of_lua() {
        for (pattern, text) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("[]", "malformed pattern (missing ']')"),
            ("[%", "malformed pattern (missing ']')"),
            ("%b(", "malformed pattern (missing arguments to '%b')"),
            ("%fa", "missing '[' after '%f' in pattern"),
            ("a)", "invalid pattern capture"),
            ("(a", "unfinished capture"),
            ("%1", "invalid capture index"),
            ("(%1)", "invalid capture index"),
            (&"()".repeat(33), "too many captures"),
            (&"a?".repeat(300), "pattern too complex"),
        ] {
            let error = matched(&"a".repeat(300), pattern).unwrap_err();
            assert_eq!(error.to_string(), text, "{pattern}");
        }
    }

    #[test]
    fn a_match_without_end_reaches_the_limit() {
        let pattern = "a*".repeat(20) + "b";
        assert_eq!(matched(&"a".repeat(100), &pattern), Err(PatternError::Limit));
    }

    proptest! {
        #[test]
        fn any_pattern_on_any_text_ends(
            subject in "[a-c(%)\\[\\]]{0,12}",
            pattern in "[a-c%\\[\\]^().*+?$bf1-]{0,12}",
        ) {
            let _ = matched(&subject, &pattern);
        }
    }
}
