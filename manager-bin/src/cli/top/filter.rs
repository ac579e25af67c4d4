//! The filter that is typed after `/`: terms, by which the manager selects among all jobs, and words, which are
//! searched for in the jobs that it lists.

use jobtap_core::job::StateSet;
use jobtap_core::resource::{Hostlist, Idset};
use thiserror::Error;

use crate::rpc::services::job_list::Constraint;
use crate::users::Users;

/// A filter in force.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Filter {
    /// Selects among all jobs of the manager.
    pub(super) constraints: Vec<Constraint>,
    /// Whether a term selects by state, so that the key `a` has no effect.
    pub(super) states: bool,
    /// Words in lower case that a listed job must contain.
    pub(super) words: Vec<String>,
}

/// A term that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum FilterError {
    #[error("{0}= is not known: use user, queue, name, state, host or rank")]
    UnknownKey(String),
    #[error("{0}= needs a value")]
    NoValue(String),
    #[error("there is no user {0}")]
    NoUser(String),
    #[error("{0} are no states: use depend, sched, run, failed, ...")]
    NoStates(String),
    /// A list of hosts or ranks, with its key.
    #[error("{0} is no list")]
    NoList(String),
}

impl Filter {
    /// Reads a filter: `user=`, `queue=`, `name=`, `state=` and `host=` with values that are separated by commas,
    /// and words.
    ///
    /// # Errors
    /// [`FilterError`].
    pub(super) fn parse(text: &str, users: &Users) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for term in text.split_whitespace() {
            let Some((key, values)) = term.split_once('=') else {
                filter.words.push(term.to_lowercase());
                continue;
            };
            let list = || values.split(',').map(str::to_owned).collect::<Vec<_>>();
            if values.is_empty() {
                return Err(FilterError::NoValue(key.to_owned()));
            }
            match key {
                "user" => {
                    let uid = |name: &String| {
                        let uid = name.parse().ok().or_else(|| users.number(name));
                        uid.ok_or_else(|| FilterError::NoUser(name.clone()))
                    };
                    let uids = list().iter().map(uid).collect::<Result<_, _>>()?;
                    filter.constraints.push(Constraint::Userid(uids));
                }
                "queue" => filter.constraints.push(Constraint::Queue(list())),
                "name" => filter.constraints.push(Constraint::Name(list())),
                "state" => {
                    filter.states = true;
                    filter.constraints.push(states(values)?);
                }
                "host" if values.parse::<Hostlist>().is_ok() => {
                    filter.constraints.push(Constraint::Hostlist(vec![values.to_owned()]));
                }
                "rank" if values.parse::<Idset>().is_ok() => {
                    filter.constraints.push(Constraint::Ranks(vec![values.to_owned()]));
                }
                "host" | "rank" => return Err(FilterError::NoList(term.to_owned())),
                _ => return Err(FilterError::UnknownKey(key.to_owned())),
            }
        }
        Ok(filter)
    }
}

/// The constraint for names of states and results.
fn states(names: &str) -> Result<Constraint, FilterError> {
    let set = names.to_lowercase().parse::<StateSet>();
    let set = set.map_err(|_| FilterError::NoStates(names.to_owned()))?;
    let (states, results) = (u64::from(set.state_bits()), u64::from(set.result_bits()));
    Ok(match (states, results) {
        (_, 0) => Constraint::States(vec![states]),
        (0, _) => Constraint::Results(vec![results]),
        _ => Constraint::Or(vec![
            Constraint::States(vec![states]),
            Constraint::Results(vec![results]),
        ]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Filter, FilterError> {
        Filter::parse(text, &Users::from_passwd("alice:x:7:7::/:/bin/sh"))
    }

    #[test]
    fn terms_select_and_words_narrow() {
        let filter = parse("user=alice,8 Relax queue=a,b").unwrap();
        let queues = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(filter.constraints, [Constraint::Userid(vec![7, 8]), Constraint::Queue(queues)]);
        assert_eq!((filter.words, filter.states), (vec!["relax".to_owned()], false));
        assert!(parse("state=run,failed").unwrap().states);
        assert_eq!(parse(" ").unwrap(), Filter::default());
    }

    #[test]
    fn a_term_that_is_not_understood_is_refused() {
        for (text, refusal) in [
            ("user=bob", "there is no user bob"),
            ("user=", "user= needs a value"),
            ("color=red", "color= is not known: use user, queue, name, state, host or rank"),
            ("state=x", "x are no states: use depend, sched, run, failed, ..."),
            ("rank=a", "rank=a is no list"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), refusal);
        }
    }
}
