//! The patterns by which plugins are removed: shell patterns, as for file names.

/// Whether a pattern means a plugin: an exact name, a shell pattern, or `all`, which means every plugin
/// whose name does not begin with a dot. `listed_as` is the name by which the plugin was loaded.
pub(super) fn means(pattern: &str, name: &str, listed_as: &str) -> bool {
    match pattern {
        "all" => !name.starts_with('.'),
        pattern => {
            let bare = pattern.strip_suffix(".so").unwrap_or(pattern);
            matches(bare, name) || matches(pattern, listed_as)
        }
    }
}

/// Matches `*`, `?`, `[a-z]` and `[!a-z]`; a leading dot must be matched by a dot.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    matches_from(&pattern, &name)
}

fn matches_from(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len())
            .any(|skip| name.get(skip..).is_some_and(|tail| matches_from(rest, tail))),
        (Some(('?', rest)), Some((_, tail))) => matches_from(rest, tail),
        (Some(('[', rest)), Some((n, tail))) => match rest.iter().position(|c| *c == ']') {
            Some(end) => {
                let (set, after) = rest.split_at(end);
                in_set(set, *n) && matches_from(after.get(1..).unwrap_or_default(), tail)
            }
            // Without a closing bracket, `[` is an ordinary character.
            None => *n == '[' && matches_from(rest, tail),
        },
        (Some((c, rest)), Some((n, tail))) => c == n && matches_from(rest, tail),
        _ => false,
    }
}

/// Whether a character is in the set between brackets.
fn in_set(set: &[char], c: char) -> bool {
    let (negated, set) = match set.split_first() {
        Some(('!' | '^', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    let mut left = set;
    while let Some((first, rest)) = left.split_first() {
        left = match rest {
            ['-', last, rest @ ..] => {
                found |= (*first..=*last).contains(&c);
                rest
            }
            rest => {
                found |= *first == c;
                rest
            }
        };
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_for_file_names() {
        assert!(matches("*", "limits"));
        assert!(!matches("*", ".limits"));
        assert!(matches(".l*", ".limits"));
        assert!(matches("l?mits", "limits"));
        assert!(!matches("limit", "limits"));
        assert!(matches("[a-m]imits", "limits"));
        assert!(!matches("[!k-m]imits", "limits"));
        assert!(!matches("[xyz]*", "limits"));
        assert!(matches("a[", "a["));
    }

    #[test]
    fn all_spares_builtins_with_a_dot() {
        assert!(means("all", "fairshare", "fairshare.so"));
        assert!(!means("all", ".priority-default", ".priority-default"));
        assert!(means("fair*", "fairshare", "fairshare.so"));
        assert!(means("fairshare.so", "fairshare", "fairshare.so"));
    }
}
