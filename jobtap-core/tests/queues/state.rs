//! The state of queues, compared with a model as simple as possible, over random histories of
//! changes, reloads and restarts.

use std::collections::BTreeMap;

use jobtap_core::queue::{Queues, Target};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// The parent of the virtual queue, when both are configured.
const PARENT: &str = "a";
const VIRTUAL: &str = "v";

#[derive(Debug, Clone)]
enum Act {
    Enable(Option<&'static str>),
    Disable(Option<&'static str>, String),
    Start(Option<&'static str>, bool),
    Stop(Option<&'static str>, Option<String>, bool),
    Configure(Vec<&'static str>),
    Restart { stop: bool },
}

#[derive(Debug, Clone, PartialEq)]
struct State {
    disabled: Option<String>,
    now: (bool, Option<String>),
    saved: (bool, Option<String>),
}

type Model = BTreeMap<String, State>;

fn names() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), select(vec!["a", "b", VIRTUAL, "x"]).prop_map(Some)]
}

fn act() -> impl Strategy<Value = Act> {
    let reason = || "[a-z]{1,3}";
    prop_oneof![
        names().prop_map(Act::Enable),
        (names(), reason()).prop_map(|(name, reason)| Act::Disable(name, reason)),
        (names(), any::<bool>()).prop_map(|(name, keep)| Act::Start(name, keep)),
        (names(), proptest::option::of(reason()), any::<bool>())
            .prop_map(|(name, reason, keep)| Act::Stop(name, reason, keep)),
        btree_set(select(vec!["a", "b", VIRTUAL]), 0..3)
            .prop_map(|names| Act::Configure(names.into_iter().collect())),
        any::<bool>().prop_map(|stop| Act::Restart { stop }),
    ]
}

/// A configuration with these queues.
fn config(names: &[&str]) -> Value {
    let table = |name: &str| match name {
        VIRTUAL if names.contains(&PARENT) => json!({ "parent": PARENT }),
        _ => json!({}),
    };
    let tables: Map<String, Value> = names.iter().map(|n| ((*n).to_owned(), table(n))).collect();
    json!({ "queues": tables })
}

fn first(names: &[&str]) -> Model {
    let state = |started| State { disabled: None, now: (started, None), saved: (started, None) };
    match names {
        [] => [(String::new(), state(true))].into(),
        names => names.iter().map(|name| ((*name).to_owned(), state(false))).collect(),
    }
}

fn target(name: Option<&str>) -> Target {
    name.map_or_else(Target::all, Target::named)
}

/// Changes the model, and returns whether there is such a queue.
fn change(model: &mut Model, name: Option<&str>, change: impl Fn(&mut State)) -> bool {
    match name {
        None => model.values_mut().for_each(change),
        Some(name) => match model.get_mut(name) {
            Some(state) => change(state),
            None => return false,
        },
    }
    true
}

fn set(state: &mut State, now: (bool, Option<String>), keep: bool) {
    state.now = now.clone();
    if keep {
        state.saved = now;
    }
}

/// The queues as the model has them.
fn expected(model: &Model) -> Vec<(String, Option<String>, bool, Option<String>)> {
    let parent = model.get(PARENT).map(|state| state.now.0);
    let one = |(name, state): (&String, &State)| {
        let held = name == VIRTUAL && state.now.0 && parent == Some(false);
        let reason = if held {
            Some(format!("parent queue '{PARENT}' is stopped"))
        } else {
            state.now.1.clone()
        };
        (name.clone(), state.disabled.clone(), state.now.0 && !held, reason)
    };
    model.iter().map(one).collect()
}

fn told(queues: &Queues) -> Vec<(String, Option<String>, bool, Option<String>)> {
    let one = |queue: jobtap_core::queue::Queue<'_>| {
        let name = queue.name().unwrap_or_default().to_owned();
        let disabled = queue.disable_reason().map(str::to_owned);
        (name, disabled, queue.is_started(), queue.stop_reason())
    };
    queues.iter().map(one).collect()
}

fn step(queues: &mut Queues, model: &mut Model, configured: &mut Vec<&'static str>, act: Act) {
    match act {
        Act::Enable(name) => {
            let there = change(model, name, |state| state.disabled = None);
            assert_eq!(queues.enable(&target(name)).is_ok(), there);
        }
        Act::Disable(name, why) => {
            let there = change(model, name, |state| state.disabled = Some(why.clone()));
            assert_eq!(queues.disable(&target(name), Some(&why)).is_ok(), there);
        }
        Act::Start(name, keep) => {
            let there = change(model, name, |state| set(state, (true, None), keep));
            assert_eq!(queues.start(&target(name), keep).is_ok(), there);
        }
        Act::Stop(name, why, keep) => {
            let there = change(model, name, |state| set(state, (false, why.clone()), keep));
            assert_eq!(queues.stop(&target(name), why.as_deref(), keep).is_ok(), there);
        }
        Act::Configure(names) => {
            queues.reconfigure(Queues::read(&config(&names)).unwrap());
            let mut new = first(&names);
            for (name, state) in &mut new {
                if let Some(before) = model.get(name) {
                    state.clone_from(before);
                }
            }
            (*model, *configured) = (new, names);
        }
        Act::Restart { stop } => {
            let checkpoint = json!({"version": 1, "queue": queues.checkpoint()});
            *queues = Queues::read(&config(configured)).unwrap();
            queues.restore(&checkpoint, stop).unwrap();
            for state in model.values_mut() {
                if stop && state.saved.0 {
                    let why = "Automatically stopped due to restart".to_owned();
                    state.saved = (false, Some(why));
                }
                state.now = state.saved.clone();
            }
        }
    }
}

proptest! {
    #[test]
    fn any_history_leaves_the_queues_as_the_model_has_them(acts in vec(act(), 0..40)) {
        let mut configured = vec!["a", "b", VIRTUAL];
        let mut queues = Queues::read(&config(&configured)).unwrap();
        let mut model = first(&configured);
        for act in acts {
            step(&mut queues, &mut model, &mut configured, act);
            prop_assert_eq!(told(&queues), expected(&model));
        }
    }
}

#[test]
fn a_checkpoint_of_the_first_form_is_read_and_one_of_a_later_form_refused() {
    let mut queues = Queues::default();
    let checkpoint = json!({"queue": [{"enable": false, "reason": "full"}, {"name": "x"}]});
    queues.restore(&checkpoint, false).unwrap();
    let anonymous = queues.lookup(None).unwrap();
    assert_eq!((anonymous.disable_reason(), anonymous.is_started()), (Some("full"), true));
    let error = queues.restore(&json!({"version": 2}), false).unwrap_err().to_string();
    assert!(error.contains("has version 2"), "{error}");
}
