//! How the work of an `async` handler is treated: `#[on("..", on_restart = "rerun", timeout = "5m",
//! on_cancel = "run-on")]`.

use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, Token};

use crate::args;
use crate::handler::{OnKind, OnTopic};
use crate::{suggest, topics};

/// One `key = value` of `#[on]`.
pub(crate) struct Setting {
    key: Ident,
    value: Expr,
}

impl Parse for Setting {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![=]>()?;
        if input.is_empty() || input.peek(Token![,]) {
            let message = format!("`{key}` needs a value\nnote: write `{key} = \"..\"`");
            return Err(syn::Error::new_spanned(key, message));
        }
        Ok(Self { key, value: input.parse()? })
    }
}

impl Setting {
    /// The topic that was written as a setting.
    pub(crate) fn topic(&self) -> Option<String> {
        let known = KEYS.iter().any(|key| self.key == *key);
        let text = args::string(&self.value, "").ok().filter(|_| !known)?.value();
        topics::find(&text).is_ok().then_some(text)
    }
}

/// What `#[on]` says beside topics.
#[derive(Default)]
pub(crate) struct Policy {
    /// `Some(true)` is rerun.
    pub(crate) rerun: Option<bool>,
    /// In seconds.
    pub(crate) timeout: Option<f64>,
    pub(crate) run_on: bool,
    /// What was set, for messages.
    keys: Vec<Ident>,
}

const KEYS: &[&str] = &["on_restart", "timeout", "on_cancel"];

impl Policy {
    /// Takes over one setting.
    pub(crate) fn set(&mut self, setting: Setting) -> syn::Result<()> {
        if let Some(topic) = setting.topic() {
            let message = format!("a topic stands without a key\nnote: write `#[on({topic:?})]`");
            return Err(syn::Error::new(setting.key.span(), message));
        }
        let Setting { key, value } = setting;
        if self.keys.contains(&key) {
            return Err(args::twice(&key));
        }
        match key.to_string().as_str() {
            "on_restart" => {
                self.rerun = Some(one_of(&value, "on_restart", ["fail", "rerun"], RESTART)?)
            }
            "on_cancel" => self.run_on = one_of(&value, "on_cancel", ["stop", "run-on"], CANCEL)?,
            "timeout" => {
                let text = args::string(&value, "`timeout`")?;
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
                self.timeout = Some(seconds);
            }
            other => {
                let message = match suggest::nearest(other, KEYS.iter().copied()) {
                    Some(meant) => {
                        format!("`{other}` is no argument of `#[on]`; did you mean `{meant}`?")
                    }
                    None => format!(
                        "`{other}` is no argument of `#[on]`\nnote: beside topics it takes {}",
                        KEYS.join(", ")
                    ),
                };
                return Err(syn::Error::new(key.span(), message));
            }
        }
        self.keys.push(key);
        Ok(())
    }

    /// Refuses what can have no effect on this handler.
    pub(crate) fn check(&self, is_async: bool, topics: &[OnTopic], errors: &mut Vec<syn::Error>) {
        if !is_async {
            errors.extend(self.refuse_without_async());
            return;
        }
        for topic in topics {
            let OnKind::Known(found) = &topic.kind else { continue };
            let idle = |key: &Ident| why_idle(&key.to_string(), found.topic);
            errors.extend(self.keys.iter().filter_map(|key| {
                let why = idle(key)?;
                let message = format!(
                    "`{key}` has no effect at `{}`\nnote: {why}; leave it out",
                    found.topic
                );
                Some(syn::Error::new(key.span(), message))
            }));
        }
    }

    /// Settings are for asynchronous work only.
    fn refuse_without_async(&self) -> Option<syn::Error> {
        let key = self.keys.first()?;
        let message = format!(
            "`{key}` is about the work of an `async` handler, and this one is not `async`\n\
             note: a handler that is not `async` ends with its callback; leave it out"
        );
        Some(syn::Error::new(key.span(), message))
    }
}

/// Why a setting can't have an effect at a topic. Of topics that are never `async` nothing is said
/// here, since they are refused as such.
fn why_idle(key: &str, topic: &str) -> Option<&'static str> {
    match (key, topic) {
        ("on_restart", "job.validate") => {
            Some("a job that isn't accepted yet is gone after a restart, and submitted again")
        }
        ("on_restart", "job.state.priority") => {
            Some("after a restart every job is asked for its priority again")
        }
        ("on_cancel", "job.validate") => Some("a job that isn't accepted yet can't be cancelled"),
        ("on_cancel", "job.state.cleanup") => {
            Some("an epilog begins when the job has ended, and nothing drops it")
        }
        ("on_cancel", "job.dependency.*" | "job.state.depend" | "job.state.priority") => {
            Some("nobody waits for the answer once the job has ended; only a prolog can run on")
        }
        _ => None,
    }
}

const RESTART: &str = "after a restart of the manager the work has failed, or begins again";
const CANCEL: &str = "when the job ends first the work is dropped at its next `await`, or goes on";

/// Whether the second word was chosen.
fn one_of(value: &Expr, key: &str, words: [&str; 2], note: &str) -> syn::Result<bool> {
    let text = args::string(value, &format!("`{key}`"))?;
    let chosen = text.value();
    if let Some(index) = words.iter().position(|word| *word == chosen) {
        return Ok(index == 1);
    }
    let [first, second] = words;
    let message = format!("`{key}` can't be {chosen:?}\nnote: {first:?} or {second:?}: {note}");
    Err(syn::Error::new(text.span(), message))
}

/// A duration as in jobspecs: a number and a unit.
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
    fn times_have_a_unit_or_are_seconds() {
        assert_eq!(seconds("30s"), Some(30.0));
        assert_eq!(seconds("1.5m"), Some(90.0));
        assert_eq!(seconds("2"), Some(2.0));
        for bad in ["", "m", "0s", "-1s", "5 m", "1e3", "5x"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
