//! `#[on("job.state.run", on_restart = "rerun", timeout = "5m", on_cancel = "run-on")]`: the topics of a
//! handler, and how its work is treated if it is `async`.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Ident, LitStr, Meta, Path, Token};

use super::model::{OnKind, OnRestart, OnTopic, Policy};
use crate::arguments;
use crate::errors::ErrorSink;
use crate::topics;

/// One argument of `#[on]`.
enum Arg {
    Name(LitStr),
    Path(Path),
    Setting(Setting),
}

/// One `key = value`.
struct Setting {
    key: Ident,
    value: Expr,
}

const KEYS: &[&str] = &["when", "on_restart", "timeout", "on_cancel"];

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Arg::Name(input.parse()?));
        }
        if input.peek(Ident) && input.peek2(Token![=]) {
            return Ok(Arg::Setting(input.parse()?));
        }
        if input.peek(Ident) || input.peek(Token![::]) || input.peek(Token![crate]) {
            let path: Path = input.parse()?;
            if input.peek(Token![!]) {
                return Err(syn::Error::new_spanned(
                    path,
                    "a topic's name is written out\nnote: `#[on]` is read before the macros inside of \
                     it; write the string that this one makes",
                ));
            }
            return Ok(Arg::Path(path));
        }
        Err(input.error(
            "a topic is expected\nnote: write its name as a string, `#[on(\"job.validate\")]`, \
             or the path of your own topic type, `#[on(my::Topic)]`",
        ))
    }
}

impl Parse for Setting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            let example = if key == "when" { "Self::is_concerned" } else { "\"..\"" };
            let message = format!("`{key}` needs a value\nnote: write `{key} = {example}`");
            return Err(syn::Error::new_spanned(key, message));
        }
        Ok(Self { key, value: input.parse()? })
    }
}

impl Setting {
    /// Returns the topic that was written as a setting.
    fn topic(&self) -> Option<String> {
        let known = KEYS.iter().any(|key| self.key == *key);
        let text = arguments::string(&self.value, "").ok().filter(|_| !known)?.value();
        topics::find(&text).is_ok().then_some(text)
    }
}

/// Reads the attribute: adds what it sets to the policy and returns its topics.
pub(crate) fn parse(
    attribute: &Attribute,
    policy: &mut Policy,
    errors: &ErrorSink<'_>,
) -> Vec<OnTopic> {
    let list = match &attribute.meta {
        Meta::List(list) => list,
        Meta::NameValue(written) => {
            errors.push(not_in_brackets(attribute, &written.value));
            return Vec::new();
        }
        Meta::Path(_) => {
            errors.push(no_topic(attribute));
            return Vec::new();
        }
    };
    if let Some(error) = bare_topic(&list.tokens) {
        errors.push(error);
        return Vec::new();
    }
    let parser = Punctuated::<Arg, Token![,]>::parse_terminated;
    let Some(args) = errors.ok(parser.parse2(list.tokens.clone())) else {
        return Vec::new();
    };
    let names_none = |arg: &Arg| matches!(arg, Arg::Setting(s) if s.topic().is_none());
    if args.iter().all(names_none) {
        errors.push(no_topic(attribute));
    }
    let mut topics = Vec::new();
    for arg in args {
        match arg {
            Arg::Name(name) => match topics::find(&name.value()) {
                Ok(found) => {
                    topics.push(OnTopic { span: name.span(), kind: OnKind::Known(found) });
                }
                Err(error) => errors.push(syn::Error::new(name.span(), error)),
            },
            Arg::Setting(setting) => errors.extend(set(policy, setting).err()),
            Arg::Path(path) => match managers_own(&path) {
                Some(error) => errors.push(error),
                None => topics.push(OnTopic { span: path.span(), kind: OnKind::Own(path) }),
            },
        }
    }
    topics
}

/// Refuses the type of one of the manager's topics, which go by their strings: a family's type alone
/// doesn't say which member.
fn managers_own(path: &Path) -> Option<syn::Error> {
    let last = path.segments.last()?.ident.to_string();
    let string = topics::string_of(&last)?;
    Some(syn::Error::new_spanned(
        path,
        format!("a topic of the manager is named by its string\nnote: write `#[on({string:?})]`"),
    ))
}

/// The error for `#[on = "job.new"]`.
fn not_in_brackets(attribute: &Attribute, value: &Expr) -> syn::Error {
    let topic = arguments::string(value, "a topic").map(|topic| topic.value());
    let topic = topic.unwrap_or_else(|_| "job.validate".to_owned());
    syn::Error::new_spanned(
        attribute,
        format!("`#[on]` takes its topics in brackets\nnote: write `#[on({topic:?})]`"),
    )
}

fn no_topic(attribute: &Attribute) -> syn::Error {
    syn::Error::new_spanned(
        attribute,
        "`#[on]` needs a topic\nnote: name one or more: `#[on(\"job.validate\")]`",
    )
}

/// The error for `#[on(job.new)]`: the string without its quotes.
fn bare_topic(tokens: &TokenStream) -> Option<syn::Error> {
    let text = tokens.to_string().replace(' ', "");
    if !text.contains('.') || text.contains('"') {
        return None;
    }
    let quoted: Vec<String> = text.split(',').map(|topic| format!("{topic:?}")).collect();
    let message = format!("a topic's name is a string\nnote: write `#[on({})]`", quoted.join(", "));
    Some(syn::Error::new_spanned(tokens, message))
}

/// Adds one setting to the policy.
fn set(policy: &mut Policy, setting: Setting) -> syn::Result<()> {
    if let Some(topic) = setting.topic() {
        let message = format!("a topic stands without a key\nnote: write `#[on({topic:?})]`");
        return Err(syn::Error::new(setting.key.span(), message));
    }
    let Setting { key, value } = setting;
    if policy.keys.contains(&key) {
        return Err(arguments::twice(&key));
    }
    match key.to_string().as_str() {
        "when" => policy.when = Some(value),
        "on_restart" => {
            let words = [("fail", OnRestart::Fail), ("rerun", OnRestart::Rerun)];
            let note = "after a restart of the manager the work has failed, or begins again";
            policy.on_restart = Some(one_of(&value, "on_restart", words, note)?);
        }
        "on_cancel" => {
            let words = [("stop", false), ("run-on", true)];
            let note =
                "when the job ends first the work is dropped at its next `await`, or goes on";
            policy.run_on = one_of(&value, "on_cancel", words, note)?;
        }
        "timeout" => {
            let text = arguments::string(&value, "`timeout`")?;
            let seconds = seconds(&text.value()).ok_or_else(|| {
                syn::Error::new(
                    text.span(),
                    format!(
                        "{:?} is no duration\nnote: write a number above 0 and `ms`, `s`, `m`, `h` \
                         or `d`, as in \"30s\" or \"5m\"",
                        text.value()
                    ),
                )
            })?;
            policy.timeout = Some(seconds);
        }
        _ => {
            let note = format!("beside topics it takes {}", KEYS.join(", "));
            return Err(arguments::unknown(&key, " of `#[on]`", KEYS, &note));
        }
    }
    policy.keys.push(key);
    Ok(())
}

/// Returns what the chosen word stands for.
fn one_of<T: Copy>(value: &Expr, key: &str, words: [(&str, T); 2], note: &str) -> syn::Result<T> {
    let text = arguments::string(value, &format!("`{key}`"))?;
    let chosen = text.value();
    if let Some((_, meant)) = words.iter().find(|(word, _)| *word == chosen) {
        return Ok(*meant);
    }
    let [(first, _), (second, _)] = words;
    let message = format!("`{key}` can't be {chosen:?}\nnote: {first:?} or {second:?}: {note}");
    Err(syn::Error::new(text.span(), message))
}

/// Refuses settings that can have no effect on this handler.
pub(crate) fn check_policy(
    policy: &Policy,
    is_async: bool,
    topics: &[OnTopic],
    errors: &ErrorSink<'_>,
) {
    if !is_async {
        errors.extend(policy.keys.first().map(refuse_without_async));
        return;
    }
    for topic in topics {
        let OnKind::Known(found) = &topic.kind else { continue };
        for key in &policy.keys {
            let Some(why) = why_idle(&key.to_string(), found.topic) else { continue };
            let message =
                format!("`{key}` has no effect at `{}`\nnote: {why}; leave it out", found.topic);
            errors.push(syn::Error::new(key.span(), message));
        }
    }
}

/// The error for a setting on a handler that is not `async`.
fn refuse_without_async(key: &Ident) -> syn::Error {
    let message = format!(
        "`{key}` is about the work of an `async` handler, and this one is not `async`\n\
         note: a handler that is not `async` ends with its callback; leave it out"
    );
    syn::Error::new(key.span(), message)
}

/// Returns why a setting can't have an effect at a topic. Topics that are never `async` are missing
/// here, since their `async` handlers are refused anyway.
fn why_idle(key: &str, topic: &str) -> Option<&'static str> {
    match (key, topic) {
        ("when", "slurm.job_submit" | "slurm.job_modify") => Some(
            "it asks about a job, and this topic is about a request; return what was asked for as it is",
        ),
        ("on_restart", "job.validate") => {
            Some("a job that isn't accepted yet is gone after a restart, and submitted again")
        }
        ("on_restart", "job.state.priority") => {
            Some("after a restart every job is asked for its priority again")
        }
        ("on_restart", "slurm.job_submit" | "slurm.job_modify") => {
            Some("a request that isn't answered yet is gone after a restart, and made again")
        }
        (
            "on_restart",
            "slurm.prolog" | "slurm.prolog_slurmctld" | "slurm.epilog" | "slurm.epilog_slurmctld",
        ) => Some("a prolog or epilog of Slurm's that is open at a restart has failed"),
        ("on_cancel", "slurm.epilog" | "slurm.epilog_slurmctld") => {
            Some("an epilog begins when the job has ended, and nothing drops it")
        }
        ("on_cancel", "slurm.job_submit" | "slurm.job_modify") => {
            Some("a request is answered, whatever becomes of the job; only a prolog can run on")
        }
        ("on_cancel", "job.validate") => Some("a job that isn't accepted yet can't be cancelled"),
        ("on_cancel", "job.state.cleanup") => {
            Some("an epilog begins when the job has ended, and nothing drops it")
        }
        ("on_cancel", "job.dependency.*" | "job.state.depend" | "job.state.priority") => {
            Some("no job waits for the answer once it has ended; only a prolog can run on")
        }
        _ => None,
    }
}

/// Reads a duration as in jobspecs: a number and a unit.
fn seconds(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let factor = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "ms" => 0.001,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    (seconds > 0.0 && seconds.is_finite()).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        assert_eq!(seconds("30s"), Some(30.0));
        assert_eq!(seconds("1.5m"), Some(90.0));
        assert_eq!(seconds("2"), Some(2.0));
        for bad in ["", "m", "0s", "-1s", "5 m", "1e3", "5x"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
