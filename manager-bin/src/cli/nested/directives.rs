//! The directives in batch scripts (RFC 36): lines such as `#flux: -n4 --time-limit=5m`.
//!
//! A directive begins with characters that are no letters or digits, then `flux:` or `FLUX:`. The first directive
//! sets this beginning for all. What follows are options of `batch`; three quotes begin a value of several lines,
//! each with the same beginning. Directives end at the first line after them that is neither a comment nor blank.

use crate::cli::common::words::{self, Comments, Escapes};

/// The options of one directive, and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) line: usize,
    pub(super) words: Vec<String>,
}

/// The quotes around values of several lines.
const TRIPLE: [&str; 2] = ["'''", "\"\"\""];

/// The directives of a script that is called `name` in errors.
///
/// # Errors
/// A message that names the line.
pub(super) fn directives(name: &str, script: &str) -> Result<Vec<Directive>, String> {
    let mut found = Vec::new();
    // The beginning of directives and the line of the last one, once there was one.
    let mut sentinel: Option<(&str, usize)> = None;
    let mut ended = false;
    let mut lines = script.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let place = format!("{name}: line {number}");
        let Some((own, rest)) = split(line) else {
            let comment = line.trim_start().is_empty() || line.trim_start().starts_with('#');
            ended |= sentinel.is_some() && !comment;
            continue;
        };
        match sentinel {
            Some((_, last)) if ended => {
                let tag = if own.ends_with("FLUX:") { "FLUX:" } else { "flux:" };
                return Err(format!(
                    "{place}: orphan '{tag}' detected: directives disabled after line {last}"
                ));
            }
            Some((first, _)) if first.trim_start() != own.trim_start() => {
                return Err(format!(
                    "{place}: sentinel changed from '{}' to '{}'\n\nAll directives in a file must \
                     use the same sentinel. To disable one, write a '#' after the sentinel, which \
                     begins a comment:\n\n  {} # {}",
                    first.trim_start(),
                    own.trim_start(),
                    first.trim_start(),
                    rest.trim()
                ));
            }
            _ => {}
        }
        let (mut text, mut last) = (rest.to_owned(), number);
        if let Some(quote) = opened(&text) {
            text = whole(&text, quote, &mut lines, own, &mut last).map_err(|(at, what)| {
                format!("{name}: line {at}: {what} at line {number}: `{}'", rest.trim())
            })?;
        }
        sentinel = Some((sentinel.map_or(own, |(first, _)| first), last));
        let words = words::split(&text, Comments::Anywhere, Escapes::QuoteAndBackslash)
            .map_err(|_| format!("{place}: {text}: No closing quotation"))?;
        if words.first().is_some_and(|first| !first.starts_with('-')) {
            return Err(format!("{place}: Unknown directive: {}", rest.trim_end()));
        }
        found.push(Directive { line: number, words });
    }
    Ok(found)
}

/// The beginning of a line, if it is that of a directive, and the rest.
fn split(line: &str) -> Option<(&str, &str)> {
    let prefix = line.find(|c: char| c.is_alphanumeric() || c == '_')?;
    let (_, rest) = line.split_at_checked(prefix)?;
    let tag = ["flux:", "FLUX:"].into_iter().find(|tag| rest.starts_with(tag))?;
    line.split_at_checked(prefix + tag.len())
}

/// The triple quote that a line opens and does not close.
fn opened(text: &str) -> Option<&'static str> {
    TRIPLE.into_iter().find(|quote| text.matches(quote).count() % 2 == 1)
}

/// A directive with a value of several lines, in one text, whose value has single quotes. The error is its line and
/// what is wrong.
fn whole<'a>(
    first: &str,
    quote: &str,
    lines: &mut impl Iterator<Item = (&'a str, usize)>,
    sentinel: &str,
    last: &mut usize,
) -> Result<String, (usize, &'static str)> {
    let (before, begin) = first.split_once(quote).unwrap_or((first, ""));
    let mut value: Vec<&str> = Vec::new();
    if !begin.trim().is_empty() {
        value.push(begin);
    }
    loop {
        let Some((line, number)) = lines.next() else {
            return Err((*last, "unterminated multi-line quote"));
        };
        *last = number;
        let Some((_, rest)) =
            split(line).filter(|(own, _)| own.trim_start() == sentinel.trim_start())
        else {
            return Err((number, "unterminated multi-line quote"));
        };
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let Some((end, after)) = rest.split_once(quote) else {
            value.push(rest);
            continue;
        };
        if !end.trim().is_empty() {
            value.push(end);
        }
        // A backslash takes the next character as it is, so any text can be quoted.
        let mut quoted = String::from("\"");
        for c in value.join("\n").chars() {
            if matches!(c, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        return Ok(format!("{before}{quoted}\"{after}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(script: &str) -> Result<Vec<String>, String> {
        let found = directives("job.sh", script)?;
        Ok(found.into_iter().flat_map(|directive| directive.words).collect())
    }

    /// As a running Flux reads these scripts.
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
        assert_eq!(options(script).unwrap(), ["-n1", "--conf=[a]\nb = \"c\" # d", "-t1"]);
        let lines: Vec<usize> =
            directives("x", script).unwrap().iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 6]);
        assert_eq!(options("#flux: -S 'a=b c' \"d\\\"e\"\n").unwrap(), ["-S", "a=b c", "d\"e"]);
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
        ] {
            let refused = options(&format!("#!/bin/sh\n{script}")).unwrap_err();
            assert!(refused.starts_with(text), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_value_of_several_lines_is_read_as_it_is(value in "[^\r\n']{0,20}(\n[^\r\n']{1,20}){0,3}") {
            let value = value.trim().to_owned();
            prop_assume!(!value.is_empty());
            let lines: String = value.split('\n').map(|line| format!("#flux: {line}\n")).collect();
            let script = format!("#flux: --conf='''\n{lines}#flux: '''\n");
            prop_assert_eq!(options(&script).unwrap(), [format!("--conf={value}")]);
        }

        #[test]
        fn any_script_is_read_or_refused(script in "(#flux: |# |'''|\"|\n|-n|x|\\\\){0,40}") {
            let _ = directives("x", &script);
        }
    }
}
