//! The filter that is typed after `/`: terms that the manager selects by among all jobs, and words that are
//! looked for in the jobs that it lists.

use jobtap_core::job::StateSet;
use jobtap_core::resource::{Hostlist, Idset};

use crate::rpc::services::job_list::Constraint;
use crate::users::Users;

/// A filter in force.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Filter {
    /// Selects among all jobs of the manager.
    pub(super) constraints: Vec<Constraint>,
    /// Whether a term selects by state, so that it decides and not the key `a`.
    pub(super) states: bool,
    /// Words in lower case that a listed job must contain.
    pub(super) words: Vec<String>,
}

impl Filter {
    /// Reads a filter: `user=`, `queue=`, `name=`, `state=` and `host=` with values that are separated by commas,
    /// and words.
    ///
    /// # Errors
    /// A sentence about the term that is not understood.
    pub(super) fn parse(text: &str, users: &Users) -> Result<Self, String> {
        let mut filter = Self::default();
        for term in text.split_whitespace() {
            let Some((key, values)) = term.split_once('=') else {
                filter.words.push(term.to_lowercase());
                continue;
            };
            let list = || values.split(',').map(str::to_owned).collect::<Vec<_>>();
            if values.is_empty() {
                return Err(format!("{key}= needs a value"));
            }
            match key {
                "user" => {
                    let uid = |name: &String| {
                        let uid = name.parse().ok().or_else(|| users.number(name));
                        uid.ok_or_else(|| format!("there is no user {name}"))
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
                "host" | "rank" => return Err(format!("{key}={values} is no list")),
                _ => {
                    let keys = "user, queue, name, state, host or rank";
                    return Err(format!("{key}= is not known: use {keys}"));
                }
            }
        }
        Ok(filter)
    }
}

/// The constraint for names of states and results.
fn states(names: &str) -> Result<Constraint, String> {
    let set: StateSet = names
        .to_lowercase()
        .parse()
        .map_err(|_| format!("{names} are no states: use depend, sched, run, failed, ..."))?;
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

    fn parse(text: &str) -> Result<Filter, String> {
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
            assert_eq!(parse(text).unwrap_err(), refusal);
        }
    }
}
