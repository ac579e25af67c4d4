//! `--env`, `--env-remove` and `--env-file`: rules that turn the caller's environment into that of the job.
//! They are applied in the order of the command line.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::caller::Caller;
use super::error::ArgError;
use super::pattern::Pattern;
use crate::files::input;

/// The maximum nesting of rule files. A file that includes itself exceeds it.
const MAX_NESTING: usize = 16;

/// The rules of all three options in the order of the command line. Those of `--env-remove` and `--env-file`
/// are stored in their equivalent form for `--env`, which is `-PATTERN` and `^FILE`.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnvRules(pub(crate) Vec<String>);

/// Name, prefix of the rules, name of the value, and help of each option. clap's derive can't preserve the
/// order of values across options.
const OPTIONS: [(&str, &str, &str, &str); 3] = [
    ("env", "", "RULE", "Change the environment: VAR=VAL, VAR, -PATTERN, ^FILE (repeatable)"),
    ("env-remove", "-", "PATTERN", "Remove variables, as --env=-PATTERN (repeatable)"),
    ("env-file", "^", "FILE", "Read rules from a file, as --env=^FILE (repeatable)"),
];

impl Args for EnvRules {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, (name, _, value, help)| {
            let option = Arg::new(*name).long(*name).value_name(*value).help(*help);
            command.arg(option.action(ArgAction::Append).allow_hyphen_values(true))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EnvRules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Self::default();
        rules.update_from_arg_matches(matches)?;
        Ok(rules)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        // Ordered by the index of the value on the command line.
        let mut rules = BTreeMap::new();
        for (name, sign, ..) in OPTIONS {
            let indices = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            rules.extend(indices.zip(values.map(|value| format!("{sign}{value}"))));
        }
        self.0 = rules.into_values().collect();
        Ok(())
    }
}

/// The environment of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Environment {
    /// Variables and their values.
    pub(crate) variables: BTreeMap<String, String>,
    /// Variables whose value contains `{{...}}`, which the job shell replaces.
    pub(crate) expand: BTreeMap<String, String>,
}

/// Applies rules to the caller's environment. `VAR=VAL` sets a variable (`$X` and `${X}` in VAL are looked up
/// in the result of the previous rules, then in the caller's environment), `VAR` or a pattern copies
/// variables of the caller, `-PATTERN` removes variables, and `^FILE` reads more rules.
///
/// # Errors
/// [`ArgError`] for an unset `$X`, an invalid pattern, or a file that can't be read.
pub(crate) fn apply(rules: &[String], caller: &Caller) -> Result<Environment, ArgError> {
    let mut env = Environment { variables: caller.env.clone(), expand: BTreeMap::new() };
    for rule in rules {
        apply_rule(rule, caller, &mut env, 0)?;
    }
    Ok(env)
}

fn apply_rule(
    rule: &str,
    caller: &Caller,
    env: &mut Environment,
    nesting: usize,
) -> Result<(), ArgError> {
    let bad_pattern = |_| ArgError::EnvPattern(rule.to_owned());
    if let Some(pattern) = rule.strip_prefix('-') {
        let pattern = Pattern::new(pattern).map_err(bad_pattern)?;
        env.variables.retain(|name, _| !pattern.matches(name));
        env.expand.retain(|name, _| !pattern.matches(name));
    } else if let Some(file) = rule.strip_prefix('^') {
        if nesting == MAX_NESTING {
            return Err(ArgError::EnvNesting(rule.to_owned()));
        }
        let text = input::text(caller.file(file)).map_err(|e| ArgError::env_file(file, &e))?;
        for line in text.lines().map(str::trim) {
            if !line.is_empty() && !line.starts_with('#') {
                apply_rule(line, caller, env, nesting + 1)?;
            }
        }
    } else if let Some((name, value)) = rule.split_once('=') {
        if value.contains("{{") {
            env.variables.remove(name);
            env.expand.insert(name.to_owned(), value.to_owned());
        } else {
            let value = substitute(value, rule, |name| {
                env.variables.get(name).or_else(|| caller.env.get(name))
            })?;
            env.expand.remove(name);
            env.variables.insert(name.to_owned(), value);
        }
    } else {
        let pattern = Pattern::new(rule).map_err(bad_pattern)?;
        for (name, value) in caller.env.iter().filter(|(name, _)| pattern.matches(name)) {
            env.variables.insert(name.clone(), value.clone());
        }
    }
    Ok(())
}

/// Replaces `$NAME` and `${NAME}`. `$$` becomes `$`.
fn substitute<'e>(
    text: &str,
    rule: &str,
    lookup: impl Fn(&str) -> Option<&'e String>,
) -> Result<String, ArgError> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        done.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            done.push('$');
            rest = after;
            continue;
        }
        let (name, tail) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or_default(),
            None => after.split_at(after.find(|c| !in_name(c)).unwrap_or(after.len())),
        };
        let digit = name.starts_with(|first: char| first.is_ascii_digit());
        if name.is_empty() || digit || !name.chars().all(in_name) {
            return Err(ArgError::EnvSubstitution(rule.to_owned()));
        }
        let value = lookup(name)
            .ok_or_else(|| ArgError::EnvUnset { name: name.to_owned(), rule: rule.to_owned() })?;
        done.push_str(value);
        rest = tail;
    }
    Ok(done + rest)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn caller() -> Caller {
        let env = [("HOME", "/home/u"), ("PATH", "/bin"), ("OMP_A", "1"), ("OMP_B", "2")];
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Caller { env: env.collect(), ..Caller::default() }
    }

    fn environment(rules: &[&str], caller: &Caller) -> Result<Environment, ArgError> {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        apply(&rules, caller)
    }

    /// The variables as `A=1 B=2`.
    fn variables(rules: &[&str]) -> String {
        let env = environment(rules, &caller()).unwrap();
        let pairs: Vec<_> = env.variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join(" ")
    }

    fn refused(rule: &str) -> String {
        environment(&[rule], &caller()).unwrap_err().to_string()
    }

    #[test]
    fn without_rules_all_variables_are_inherited() {
        assert_eq!(variables(&[]), "HOME=/home/u OMP_A=1 OMP_B=2 PATH=/bin");
    }

    #[test]
    fn rules_set_copy_and_remove_in_order() {
        assert_eq!(variables(&["-*", "FOO=bar"]), "FOO=bar");
        assert_eq!(variables(&["-*", "OMP_*"]), "OMP_A=1 OMP_B=2");
        assert_eq!(variables(&["-OMP_?", "-/HO|P/"]), "");
        assert_eq!(variables(&["-*", "OMP_[!A]"]), "OMP_B=2");
        assert_eq!(variables(&["-*", "OMP_[A-A]"]), "OMP_A=1");
        assert_eq!(variables(&["-*", "NOSUCH"]), "");
        assert_eq!(variables(&["FOO=bar", "-*"]), "");
        assert_eq!(variables(&["-*", "E="]), "E=");
    }

    #[test]
    fn values_refer_to_previous_rules_then_to_the_caller() {
        assert_eq!(variables(&["-*", "PATH=/x", "PATH=$PATH:/y"]), "PATH=/x:/y");
        assert_eq!(variables(&["-*", "P=${PATH}a$$b=$HOME"]), "P=/bina$b=/home/u");
        assert_eq!(refused("A=x$NO/y"), "--env: Variable 'NO' not found in A=x$NO/y");
        for rule in ["A=$", "A=${", "A=${HOME", "A=$1", "A=${a-b}"] {
            assert!(refused(rule).ends_with(&format!("substitute {rule}")), "{rule}");
        }
        assert_eq!(refused("-/(/"), "--env: invalid pattern in -/(/");
    }

    #[test]
    fn values_with_mustache_are_for_the_job_shell() {
        let env = environment(&["-*", "PATH={{tmpdir}}:$PATH"], &caller()).unwrap();
        assert!(env.variables.is_empty());
        assert_eq!(env.expand["PATH"], "{{tmpdir}}:$PATH");
        let env = environment(&["A={{x}}", "A=1"], &caller()).unwrap();
        assert!(env.expand.is_empty());
        assert_eq!(env.variables["A"], "1");
    }

    #[test]
    fn files_contain_more_rules() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rules"), "-*\n\n# a comment\n  A=1\n^more\n").unwrap();
        fs::write(dir.path().join("more"), "B=$A$A\n").unwrap();
        fs::write(dir.path().join("loop"), "^loop\n").unwrap();
        let caller = Caller { cwd: dir.path().to_owned(), ..caller() };
        let env = environment(&["^rules"], &caller).unwrap();
        let pairs: Vec<_> = env.variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(pairs, ["A=1", "B=11"]);
        assert_eq!(
            environment(&["^nosuch"], &caller).unwrap_err().to_string(),
            "--env: [Errno 2] No such file or directory: 'nosuch'"
        );
        assert!(environment(&["^loop"], &caller).unwrap_err().to_string().contains("too deeply"));
    }

    #[test]
    fn rules_keep_the_order_of_the_command_line() {
        let command = EnvRules::augment_args(Command::new("t"));
        let words = ["t", "--env=A=1", "--env-remove=B*", "--env", "-C", "--env-file=f", "--env=D"];
        let matches = command.get_matches_from(words);
        let rules = EnvRules::from_arg_matches(&matches).unwrap();
        assert_eq!(rules.0, ["A=1", "-B*", "-C", "^f", "D"]);
    }

    proptest! {
        #[test]
        fn any_rule_is_applied_or_named_in_the_error(rule in "\\PC{0,12}|[-A-Z*?\\[\\]!/$={}]{0,12}") {
            // `^FILE` depends on the file.
            prop_assume!(!rule.starts_with('^'));
            let before = caller().env;
            match environment(&[&rule], &caller()) {
                Ok(env) => {
                    let set = rule.split_once('=').map(|(name, _)| name);
                    let set = set.filter(|_| !rule.starts_with('-'));
                    // A rule changes only the variable that it sets, or removes variables.
                    for (name, value) in &env.variables {
                        prop_assert!(set == Some(name) || before.get(name) == Some(value), "{}", name);
                    }
                    let remains = |name: &String| set == Some(name) || env.variables.contains_key(name);
                    prop_assert!(rule.starts_with('-') || before.keys().all(remains));
                }
                Err(error) => {
                    let error = error.to_string();
                    prop_assert!(error.ends_with(&format!(" {rule}")), "{}", error);
                }
            }
        }
    }
}
