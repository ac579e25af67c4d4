//! The directives in batch scripts (RFC 36): lines such as `#flux: -n4 --time-limit=5m`.
//!
//! A directive begins with characters that are not letters or digits, then `flux:` or `FLUX:`. The first directive
//! determines this beginning for all. What follows are options of `batch`; three quotes at the end of a line begin a
//! value of several lines, each with the same beginning, until one that ends with these quotes. Directives end at the
//! first line after them that is neither a comment nor blank.

use thiserror::Error;

use crate::cli::common::words::{self, Comments, Escapes};

/// The options of one directive, and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
}

/// A directive that can't be read.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{script}: line {line}: {fault}")]
pub(super) struct DirectiveError {
    script: String,
    line: usize,
    fault: Fault,
}

#[derive(Debug, PartialEq, Eq, Error)]
enum Fault {
    #[error("orphan '{tag}' detected: directives disabled after line {last}")]
    Orphan { tag: &'static str, last: usize },
    #[error(
        "sentinel changed from '{first}' to '{own}'\n\nAll directives in a file must use the same sentinel. To \
         disable one, write a '#' after the sentinel, which begins a comment:\n\n  {first} # {rest}"
    )]
    Sentinel { first: String, own: String, rest: String },
    #[error("unclosed triple quote: {0}")]
    TripleQuote(String),
    /// A value of several lines, with its first line.
    #[error("unterminated multi-line quote at line {first}: `{text}'")]
    Unterminated { first: usize, text: String },
    #[error("{0}: No closing quotation")]
    Quote(String),
    #[error("Unknown directive: {0}")]
    Unknown(String),
}

/// The quotes around values of several lines.
const TRIPLE: [&str; 2] = ["'''", "\"\"\""];

/// The directives of a script that is called `name` in errors.
///
/// # Errors
/// [`DirectiveError`].
pub(super) fn directives(name: &str, script: &str) -> Result<Vec<Directive>, DirectiveError> {
    let refused = |line, fault| DirectiveError { script: name.to_owned(), line, fault };
    let mut found = Vec::new();
    // The beginning of directives and the line of the last one; `None` before the first one.
    let mut sentinel: Option<(&str, usize)> = None;
    let mut ended = false;
    let mut lines = script.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let bad = |fault| refused(number, fault);
        let Some((own, rest)) = split(line) else {
            let comment = line.trim_start().is_empty() || line.trim_start().starts_with('#');
            ended |= sentinel.is_some() && !comment;
            continue;
        };
        match sentinel {
            Some((_, last)) if ended => {
                let tag = if own.ends_with("FLUX:") { "FLUX:" } else { "flux:" };
                return Err(bad(Fault::Orphan { tag, last }));
            }
            Some((first, _)) => check_same(first, own, rest).map_err(bad)?,
            None => {}
        }
        let mut last = number;
        let text = match unquoted(rest).ok_or_else(|| bad(unclosed(rest)))? {
            Text::Whole(text) => text,
            Text::Open(before, quote) => {
                let mut value = String::new();
                loop {
                    let next = lines.next();
                    last = next.map_or(last, |(_, number)| number);
                    let bad = |fault| refused(last, fault);
                    let Some((inner, content)) = next.and_then(|(line, _)| split(line)) else {
                        let text = rest.trim().to_owned();
                        return Err(bad(Fault::Unterminated { first: number, text }));
                    };
                    check_same(own, inner, content).map_err(bad)?;
                    let content = content.strip_prefix([' ', '\t']).unwrap_or(content);
                    if let Some(end) = content.strip_suffix(quote) {
                        value.push_str(end);
                        break format!("{before}{}", quoted(&value));
                    }
                    if TRIPLE.iter().any(|q| content.contains(q) && !content.ends_with(q)) {
                        return Err(bad(unclosed(content)));
                    }
                    value.push_str(content);
                    value.push('\n');
                }
            }
        };
        sentinel = Some((sentinel.map_or(own, |(first, _)| first), last));
        let words = words::split(&text, Comments::Anywhere, Escapes::QuoteAndBackslash)
            .map_err(|_| bad(Fault::Quote(text)))?;
        if words.first().is_some_and(|first| !first.starts_with('-')) {
            return Err(bad(Fault::Unknown(rest.trim_end().to_owned())));
        }
        found.push(Directive { line: number, words });
    }
    Ok(found)
}

/// The beginning of a directive and the rest of the line; `None` if the line is not a directive.
fn split(line: &str) -> Option<(&str, &str)> {
    let prefix = line.find(|c: char| c.is_alphanumeric() || c == '_')?;
    let (_, rest) = line.split_at_checked(prefix)?;
    let tag = ["flux:", "FLUX:"].into_iter().find(|tag| rest.starts_with(tag))?;
    line.split_at_checked(prefix + tag.len())
}

fn unclosed(text: &str) -> Fault {
    Fault::TripleQuote(text.trim().to_owned())
}

/// Returns an error if a directive has a different beginning than the ones before.
fn check_same(first: &str, own: &str, rest: &str) -> Result<(), Fault> {
    let (first, own) = (first.trim_start(), own.trim_start());
    if first == own {
        return Ok(());
    }
    let rest = rest.trim().to_owned();
    Err(Fault::Sentinel { first: first.to_owned(), own: own.to_owned(), rest })
}

/// The text of a directive, with values in triple quotes replaced by values in the quotes of a shell.
enum Text {
    Whole(String),
    /// The text ends with a triple quote, and the value is on the lines that follow.
    Open(String, &'static str),
}

/// Replaces the triple quotes of a line. `None` if one is neither closed nor at the end of the line.
fn unquoted(line: &str) -> Option<Text> {
    let (mut text, mut rest) = (String::new(), line);
    loop {
        let first = TRIPLE.into_iter().filter_map(|quote| Some((rest.find(quote)?, quote))).min();
        let Some((at, quote)) = first else { return Some(Text::Whole(text + rest)) };
        let (before, after) = rest.split_at_checked(at)?;
        text.push_str(before);
        let after = after.strip_prefix(quote)?;
        match closed(after, quote) {
            Some((value, after)) => {
                text.push_str(&quoted(value));
                rest = after;
            }
            None if after.is_empty() => return Some(Text::Open(text, quote)),
            None => return None,
        }
    }
}

/// The value before a triple quote, and the rest. If there are more than three quotes in a row, the last three close
/// it.
fn closed<'a>(text: &'a str, quote: &str) -> Option<(&'a str, &'a str)> {
    let first = text.find(quote)?;
    let run = text.get(first..)?.chars().take_while(|c| quote.starts_with(*c)).count();
    let (value, after) = text.split_at_checked(first + run - quote.len())?;
    Some((value, after.strip_prefix(quote)?))
}

/// A text in quotes. A backslash precedes each quote and backslash, so any text can be quoted.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(script: &str) -> Result<Vec<String>, DirectiveError> {
        let found = directives("job.sh", script)?;
        Ok(found.into_iter().flat_map(|directive| directive.words).collect())
    }

    /// The scripts are read as a running Flux reads them.
    #[test]
    fn directives_are_read_as_flux_reads_them() {
        for (script, expected) in [
            ("#flux: -n2 --job-name=foo\n#flux: -t 5m # comment\n", "-n2 --job-name=foo -t 5m"),
            ("# flux: -n2\n\n# comment\n# flux: -c3\n", "-n2 -c3"),
            ("    ##FLUX: -n2\n    ##FLUX:\n", "-n2"),
            ("//flux: -n2\n", "-n2"),
            ("\"\"\"\nflux: -n2\n\"\"\"\n", "-n2"),
            ("#flux:-n2\n#flux:  \t -c2\n", "-n2 -c2"),
            ("echo first\n#flux: -n2\n", "-n2"),
            ("#flux: -n2\necho\n# fluxx: -c3\n# say flux: hi\n", "-n2"),
            ("#Flux: -n2\n#flux\n", ""),
            ("#flux: -n2\n#flux: # -n3\n", "-n2"),
        ] {
            let found = options(&format!("#!/bin/sh\n{script}")).unwrap();
            assert_eq!(found.join(" "), expected, "{script}");
        }
    }

    #[test]
    fn a_value_may_have_several_lines() {
        let script = "#!/bin/sh\n#flux: -n1 --conf='''\n#flux: [a]\n#flux: b = \"c\" # d\n#flux: '''\n#flux: -t1\n";
        assert_eq!(options(script).unwrap(), ["-n1", "--conf=[a]\nb = \"c\" # d\n", "-t1"]);
        let lines: Vec<usize> =
            directives("x", script).unwrap().iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 6]);
        assert_eq!(options("#flux: -S 'a=b c' \"d\\\"e\"\n").unwrap(), ["-S", "a=b c", "d\"e"]);
        for (lines, value) in [
            ("#flux: one\n#flux: two\"\"\"", "one\ntwo"),
            ("#flux:\tone\n#flux:\n#flux:   \"\"\"", "one\n\n  "),
            ("#flux: '''\n#flux: \\ \"a\"\n#flux:\"\"\"", "'''\n\\ \"a\"\n"),
            ("#flux: \"\"\"", ""),
        ] {
            let script = format!("#flux: -x \"\"\"\n{lines}\n#flux: -c2\n");
            assert_eq!(options(&script).unwrap(), ["-x", value, "-c2"], "{lines}");
        }
    }

    #[test]
    fn triple_quotes_may_close_on_their_line() {
        let line = "#flux: -x=\"\"\"a # \"b\"\"\"\" -y='''c'd''' # e\n";
        assert_eq!(options(line).unwrap(), ["-x=a # \"b\"", "-y=c'd"]);
        assert_eq!(options("#flux: -z=''''''\n").unwrap(), ["-z="]);
    }

    #[test]
    fn malformed_directives_are_refused_by_their_line() {
        for (script, text) in [
            (
                "#flux: -n2\necho\n   #flux: -t1\n",
                "job.sh: line 4: orphan 'flux:' detected: directives disabled after line 2",
            ),
            (
                "#flux: -n2\n# flux: -c2\n",
                "job.sh: line 3: sentinel changed from '#flux:' to '# flux:'",
            ),
            (
                "# FLUX: -n2\n# flux: -c2\n",
                "job.sh: line 3: sentinel changed from '# FLUX:' to '# flux:'",
            ),
            ("#flux: foo\n", "job.sh: line 2: Unknown directive:  foo"),
            ("#flux: -n1 \"foo\n", "job.sh: line 2:  -n1 \"foo: No closing quotation"),
            (
                "#flux: -n2 --conf=\"\"\"\necho hi\n",
                "job.sh: line 3: unterminated multi-line quote at line 2: `-n2 --conf=\"\"\"'",
            ),
            (
                "#flux: --conf='''\n#flux: a=1\n",
                "job.sh: line 3: unterminated multi-line quote at line 2: `--conf='''",
            ),
            ("#flux: -x \"\"\"one\n", "job.sh: line 2: unclosed triple quote: -x \"\"\"one"),
            ("#flux: -x \"\"\" \n", "job.sh: line 2: unclosed triple quote: -x \"\"\""),
            (
                "#flux: -x \"\"\"\n#flux: \"\"\" -y\n",
                "job.sh: line 3: unclosed triple quote: \"\"\" -y",
            ),
            (
                "#flux: -x \"\"\"\n#flux: a ''' b\n",
                "job.sh: line 3: unclosed triple quote: a ''' b",
            ),
            (
                "# flux: -x \"\"\"\n#flux: a\n",
                "job.sh: line 3: sentinel changed from '# flux:' to '#flux:'",
            ),
        ] {
            let refused = options(&format!("#!/bin/sh\n{script}")).unwrap_err().to_string();
            assert!(refused.starts_with(text), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_value_of_several_lines_is_read_as_it_is(value in "[^\r\n']{0,20}(\n[^\r\n']{1,20}){0,3}") {
            prop_assume!(!value.contains(TRIPLE[1]));
            let lines: String = value.split('\n').map(|line| format!("#flux: {line}\n")).collect();
            let script = format!("#flux: --conf='''\n{lines}#flux: '''\n");
            prop_assert_eq!(options(&script).unwrap(), [format!("--conf={value}\n")]);
        }

        #[test]
        fn any_script_is_read_or_refused(script in "(#flux: |# |'''|\"|\n|-n|x|\\\\){0,40}") {
            let _ = directives("x", &script);
        }
    }
}
