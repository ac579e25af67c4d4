//! Splits a line into words as a shell does, for directives of scripts and for options whose value is several words.
//! These differ in what begins a comment and in what a backslash means within double quotes.

/// What begins a comment, which ends the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comments {
    /// Every `#` outside quotes, as in directives of Flux (RFC 36).
    Anywhere,
    /// A `#` where a word would begin, as in lines of `#SBATCH`.
    BetweenWords,
    /// Nothing: `#` is an ordinary character.
    // Only the command `slurm` splits this way.
    #[cfg_attr(not(feature = "builtins"), allow(dead_code))]
    Never,
}

/// Which characters a backslash escapes within double quotes. Outside quotes it escapes every character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// A double quote and a backslash; before any other character the backslash stays.
    QuoteAndBackslash,
    /// Every character.
    All,
}

/// A quote that isn't closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenQuote(pub(crate) char);

/// The words of `text`. Single or double quotes keep blanks together and are left out of the word.
///
/// # Errors
/// The last quote, if it isn't closed.
pub(crate) fn split(
    text: &str,
    comments: Comments,
    escapes: Escapes,
) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None) => word.get_or_insert_default().extend(characters.next()),
            ('\\', Some('"')) => {
                let taken = characters
                    .next_if(|next| escapes == Escapes::All || matches!(next, '"' | '\\'));
                let kept = (escapes == Escapes::QuoteAndBackslash).then_some('\\');
                word.get_or_insert_default().extend(taken.or(kept));
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if comments == Comments::Anywhere => break,
            ('#', None) if comments == Comments::BetweenWords && word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), |open| Err(OpenQuote(open)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_blanks_together() {
        for escapes in [Escapes::All, Escapes::QuoteAndBackslash] {
            let words = |text| split(text, Comments::Never, escapes);
            let expected = ["a=x y", "b \"c", "d e", "", "f#g"].map(str::to_owned);
            assert_eq!(words(r#" a="x y"  'b "c' d\ e '' f#g"#), Ok(expected.to_vec()));
            assert_eq!(words("a='b"), Err(OpenQuote('\'')));
            assert_eq!(words("a=\"b'"), Err(OpenQuote('"')));
        }
    }

    #[test]
    fn a_backslash_in_double_quotes_takes_what_the_caller_says() {
        let text = r#""a\nb\"c\\d" '\n'"#;
        let words = |escapes| split(text, Comments::Never, escapes).unwrap();
        assert_eq!(words(Escapes::All), [r#"anb"c\d"#, r"\n"]);
        assert_eq!(words(Escapes::QuoteAndBackslash), [r#"a\nb"c\d"#, r"\n"]);
    }

    #[test]
    fn comments_begin_where_the_caller_says() {
        let text = "a#b '#' # c";
        let words = |comments| split(text, comments, Escapes::All).unwrap();
        assert_eq!(words(Comments::Anywhere), ["a"]);
        assert_eq!(words(Comments::BetweenWords), ["a#b", "#"]);
        assert_eq!(words(Comments::Never), ["a#b", "#", "#", "c"]);
    }
}
