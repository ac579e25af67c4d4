//! Source text of Lua 5.1, rewritten so that Lua 5.4 runs it as 5.1 would.
//!
//! Most differences are in functions, which `prelude.lua` replaces. Four are part of the syntax and are
//! changed here, token by token and line for line, so that errors keep their line numbers:
//!
//! - `a .. b`. In Lua 5.1 concatenating the number 3 gives `3`; in 5.4 it gives `3.0` if the number is the result of a
//!   division. A script can't override this, so the prelude does the concatenation itself: `a .. M .. b`, where `M` is
//!   a marker whose `__concat` is called with `b` first; that of the result is then called with `a`. A marker is
//!   written as `("")[N]`, since a string can be indexed in any function, whatever its environment is.
//! - `"\-"`: 5.1 drops the backslash of an unknown escape, 5.4 refuses the script.
//! - `arg`, the table of the arguments of a function with `...` that doesn't use `...` itself.
//! - A first line with `#`, which is not part of the program.

use std::ops::Range;

use super::token::{Kind, Tokens};

/// A source text for Lua 5.4.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) text: Vec<u8>,
    /// The operands on both sides of each marker, for the error when they can't be joined.
    pub(super) operands: Vec<(Option<String>, Option<String>)>,
}

/// The index at which the prelude keeps the function that makes `arg`; markers begin after it.
const PACK: usize = 0;

/// Rewrites a source text. `first` is the number of its first marker, at least 1.
pub(super) fn rewrite(source: &[u8], first: usize) -> Rewritten {
    let tokens = Tokens::new(source);
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
    let mut operands = Vec::new();
    let mut blocks: Vec<Option<Function>> = Vec::new();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        match token.kind {
            Kind::Quoted => {
                if let Some(text) = without_unknown_escapes(tokens.bytes(index)) {
                    edits.push((token.range.clone(), text));
                }
            }
            Kind::Symbol if tokens.is(index, "..") && !joins_literals(&tokens, index) => {
                let marker = first + operands.len();
                let text = format!(" (\"\")[{marker}] ..").into_bytes();
                edits.push((token.range.end..token.range.end, text));
                operands.push((left_operand(&tokens, index), right_operand(&tokens, index)));
            }
            Kind::Symbol if tokens.is(index, "...") => {
                if let Some(function) = blocks.iter_mut().rev().flatten().next() {
                    function.uses_dots = true;
                }
            }
            Kind::Name if tokens.name(index) == Some("arg") => {
                let functions = blocks.iter_mut().rev().flatten();
                if let Some(function) = functions.into_iter().find(|f| f.body_of_dots.is_some()) {
                    function.uses_arg = true;
                }
            }
            Kind::Keyword => match tokens.bytes(index) {
                b"function" => {
                    let (function, last) = Function::new(&tokens, index);
                    blocks.push(Some(function));
                    index = last;
                }
                b"if" | b"do" | b"repeat" => blocks.push(None),
                b"end" | b"until" => {
                    if let Some(Some(function)) = blocks.pop() {
                        edits.extend(function.declaration_of_arg());
                    }
                }
                _ => {}
            },
            _ => {}
        }
        index += 1;
    }
    edits.sort_by_key(|(range, _)| range.start);
    Rewritten { text: apply(source, &edits), operands }
}

fn apply(source: &[u8], edits: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut text = Vec::with_capacity(source.len() + source.len() / 4);
    // Lua skips a leading `#` line only when it loads a file. The line break is kept, so that line numbers don't shift.
    let shebang = source.first() == Some(&b'#');
    let mut at = match shebang {
        true => source.iter().position(|byte| *byte == b'\n').unwrap_or(source.len()),
        false => 0,
    };
    for (range, replacement) in edits {
        text.extend_from_slice(source.get(at..range.start).unwrap_or_default());
        text.extend_from_slice(replacement);
        at = range.end;
    }
    text.extend_from_slice(source.get(at..).unwrap_or_default());
    text
}

/// A function whose body is being read.
struct Function {
    /// Where the body begins, if the function takes `...`.
    body_of_dots: Option<usize>,
    uses_dots: bool,
    uses_arg: bool,
}

impl Function {
    /// Reads the head of a function. Also returns the index of the head's last token.
    fn new(tokens: &Tokens<'_>, keyword: usize) -> (Self, usize) {
        let mut index = keyword + 1;
        // The name, as in `function a.b:c(..)`.
        while tokens.name(index).is_some() || tokens.is(index, ".") || tokens.is(index, ":") {
            index += 1;
        }
        let mut dots = false;
        if tokens.is(index, "(") {
            while tokens.get(index + 1).is_some() && !tokens.is(index, ")") {
                index += 1;
                dots |= tokens.is(index, "...");
            }
        }
        let body = tokens.get(index).filter(|_| dots).map(|token| token.range.end);
        (Self { body_of_dots: body, uses_dots: false, uses_arg: false }, index)
    }

    fn declaration_of_arg(self) -> Option<(Range<usize>, Vec<u8>)> {
        let body = self.body_of_dots.filter(|_| self.uses_arg && !self.uses_dots)?;
        Some((body..body, format!(" local arg = (\"\")[{PACK}](...);").into_bytes()))
    }
}

/// Whether both operands of an operator are strings in the source.
fn joins_literals(tokens: &Tokens<'_>, operator: usize) -> bool {
    let string = |index| {
        let kind = tokens.get(index).map(|token| token.kind);
        matches!(kind, Some(Kind::Quoted | Kind::Long))
    };
    let Some(left) = operator.checked_sub(1) else { return false };
    // After a name or a closing bracket, a string is the argument of a call.
    let argument = left.checked_sub(1).is_some_and(|before| {
        let called = tokens.is(before, ")") || tokens.is(before, "]");
        called || string(before) || tokens.name(before).is_some()
    });
    string(left) && string(operator + 1) && !argument
}

/// Describes the operand left of an operator, if it is a name or a field.
fn left_operand(tokens: &Tokens<'_>, operator: usize) -> Option<String> {
    let index = operator.checked_sub(1)?;
    let name = tokens.name(index)?;
    let field = index.checked_sub(1).is_some_and(|before| tokens.is(before, "."));
    Some(described(name, field))
}

/// Describes the operand right of an operator, if it is a name or a field.
fn right_operand(tokens: &Tokens<'_>, operator: usize) -> Option<String> {
    let mut index = operator + 1;
    let mut name = tokens.name(index)?;
    let mut field = false;
    while tokens.is(index + 1, ".") {
        (index, field) = (index + 2, true);
        name = tokens.name(index)?;
    }
    let string =
        tokens.get(index + 1).is_some_and(|token| matches!(token.kind, Kind::Quoted | Kind::Long));
    let goes_on = ["(", "[", "{", ":"].iter().any(|symbol| tokens.is(index + 1, symbol));
    (!string && !goes_on).then(|| described(name, field))
}

fn described(name: &str, field: bool) -> String {
    let what = if field { "field" } else { "variable" };
    format!("{what} '{name}'")
}

/// The string without the backslashes of escapes that Lua 5.4 doesn't know; `None` for a string without such escapes.
fn without_unknown_escapes(string: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(string.len());
    let mut rest = string;
    while let [first, tail @ ..] = rest {
        let known = match (first, tail) {
            (b'\\', [b'x', a, b, ..]) => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
            (b'\\', [b'x', ..]) => false,
            (b'\\', [b'u', next, ..]) => *next == b'{',
            (b'\\', [escaped, ..]) => {
                b"abfnrtvz\\\"'\n\r".contains(escaped) || escaped.is_ascii_digit()
            }
            _ => {
                text.push(*first);
                rest = tail;
                continue;
            }
        };
        if known {
            text.push(b'\\');
        }
        // The escaped byte itself is copied unchanged, even if it is a backslash or a quote.
        if let [escaped, tail @ ..] = tail {
            text.push(*escaped);
            rest = tail;
        }
    }
    (text.len() < string.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(source: &str) -> String {
        String::from_utf8(rewrite(source.as_bytes(), 1).text).unwrap()
    }

    #[test]
    fn operands_of_concatenations_are_joined_by_markers() {
        assert_eq!(text("x = a .. b"), r#"x = a .. ("")[1] .. b"#);
        assert_eq!(text("x = a..b..c"), r#"x = a.. ("")[1] ..b.. ("")[2] ..c"#);
        assert_eq!(text("x = 'a' .. 'b'"), "x = 'a' .. 'b'");
        assert_eq!(text("x = f'a' .. 'b'"), r#"x = f'a' .. ("")[1] .. 'b'"#);
        assert_eq!(text("x = '..' -- a .. b"), "x = '..' -- a .. b");
    }

    #[test]
    fn operands_are_described_for_errors() {
        let named = |left: &str, right: &str| {
            let name = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            vec![(name(left), name(right))]
        };
        let operands = |source: &str| rewrite(source.as_bytes(), 1).operands;
        assert_eq!(operands("x = a .. d.b.c"), named("variable 'a'", "field 'c'"));
        assert_eq!(operands("x = d.a .. f(b)"), named("field 'a'", ""));
        assert_eq!(operands("x = t[1] .. t[2]"), named("", ""));
    }

    #[test]
    fn unknown_escapes_lose_their_backslash() {
        assert_eq!(text(r#"x = "a\.b\\.\-\n\065\xZ""#), r#"x = "a.b\\.-\n\065xZ""#);
        assert_eq!(text(r"x = '\x41\'\\'"), r"x = '\x41\'\\'");
    }

    #[test]
    fn arg_is_declared_where_a_function_uses_it() {
        assert_eq!(
            text("function f(a, ...) return arg.n end"),
            r#"function f(a, ...) local arg = ("")[0](...); return arg.n end"#
        );
        let kept = "function f(...) if x then g(arg, ...) end end";
        assert_eq!(text(kept), kept);
        let inner =
            "function f(...) return function() while x do repeat y() until arg[1] end end end";
        assert!(text(inner).starts_with(r#"function f(...) local arg = ("")[0](...);"#));
        let other = "function f(arg) return arg end print(arg)";
        assert_eq!(text(other), other);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "#!/usr/bin/lua\nx = a\n.. [[\n]] .. b\nfunction f(...)\nreturn arg end";
        assert_eq!(text(source).matches('\n').count(), source.matches('\n').count());
        assert!(text(source).starts_with('\n'));
    }

    #[test]
    fn a_text_that_is_no_lua_is_left_to_the_compiler() {
        for source in
            ["function", "function f(", "end end", "x = 'a", "function f(... ", "\\", ".."]
        {
            rewrite(source.as_bytes(), 1);
        }
        assert_eq!(text("x = $ .. y"), "x = $ .. y");
    }

    proptest! {
        #[test]
        fn any_bytes_are_rewritten(source in proptest::collection::vec(any::<u8>(), 0..200)) {
            let rewritten = rewrite(&source, 1);
            let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(lines(&rewritten.text), lines(&source));
        }
    }
}
