//! Queues that only some users and groups may use (`policy.access`): who may submit to them and move jobs there, and
//! which partitions plugins see.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

const ADA: u32 = 7;
const BOB: u32 = 8;
const EVE: u32 = 9;

#[derive(Default)]
struct Basics;

#[jobtap_plugin(name = "basics")]
impl Basics {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(1)
    }

    #[on("job.update.attributes.system.queue")]
    fn move_job(&self) -> Update {
        Update::allow()
    }
}

/// `open` is for all, `chem` for a group and a user, `bio` for a group.
fn config() -> Value {
    json!({
        "policy": {"jobspec": {"defaults": {"system": {"queue": "open"}}}},
        "queues": {
            "open": {},
            "chem": {"policy": {"access": {"allow-user": ["eve"], "allow-group": ["chem"]}}},
            "bio": {"policy": {"access": {"allow-group": ["bio"]}}},
            "night": {"parent": "bio"},
        },
    })
}

fn builder(config: Value) -> TestManagerBuilder {
    let m = TestManager::new().plugin::<Basics>().config(config);
    let m = m.known_user(ADA, "ada", 100).groups_of_user(ADA, ["users", "chem"]);
    m.known_user(BOB, "bob", 100).groups_of_user(BOB, ["bio"]).known_user(EVE, "eve", 100)
}

/// The queues to which a user may submit jobs.
fn allowed(m: &mut TestManager, user: u32) -> Vec<&'static str> {
    let mut may = |queue: &str| m.submit(TestJob::new().user(user).queue(queue)).is_ok();
    ["bio", "chem", "night", "open"].into_iter().filter(|queue| may(queue)).collect()
}

#[test]
fn users_submit_to_queues_that_are_for_them() {
    let mut m = builder(config()).start();
    assert_eq!(allowed(&mut m, ADA), ["chem", "open"]);
    assert_eq!(allowed(&mut m, BOB), ["bio", "night", "open"]);
    assert_eq!(allowed(&mut m, EVE), ["chem", "open"]);
    // A user whom the system doesn't know, and the owner of the instance.
    assert_eq!(allowed(&mut m, 4000), ["open"]);
    assert_eq!(allowed(&mut m, TestJob::OWNER.as_u32()), ["bio", "chem", "night", "open"]);
    let refusal = m.submit(TestJob::new().user(ADA).queue("bio")).unwrap_err();
    assert_eq!(refusal, "user ada is not allowed to submit jobs to queue bio");
}

#[test]
fn the_default_queue_is_checked_like_any_other() {
    let mut config = config();
    config["policy"]["jobspec"]["defaults"]["system"]["queue"] = json!("bio");
    let mut m = builder(config).start();
    m.submit(TestJob::new().user(BOB)).unwrap();
    let refusal = m.submit(TestJob::new().user(ADA)).unwrap_err();
    assert_eq!(refusal, "user ada is not allowed to submit jobs to queue bio");
}

#[test]
fn a_queue_overrides_the_general_lists() {
    let general = json!({"access": {"allow-user": ["ada"]}});
    let mut m = builder(json!({"policy": general})).start();
    m.submit(TestJob::new().user(ADA)).unwrap();
    let refusal = m.submit(TestJob::new().user(BOB)).unwrap_err();
    assert_eq!(refusal, "user bob is not allowed to submit jobs");
    let mut config = config();
    config["policy"]["access"] = json!({"allow-user": ["ada"]});
    let mut m = builder(config).start();
    // `bio` has a list of groups of its own, beside the general one of users; `chem` has both.
    assert_eq!(allowed(&mut m, ADA), ["bio", "chem", "night", "open"]);
    assert_eq!(allowed(&mut m, BOB), ["bio", "night"]);
    assert_eq!(allowed(&mut m, EVE), ["chem"]);
}

#[test]
fn a_job_can_not_be_moved_past_the_lists() {
    let mut m = builder(config()).start();
    let mut moved = |user: u32, from: &str, to: &str| {
        let id = m.submit(TestJob::new().user(user).queue(from).urgency(0)).unwrap();
        m.update_as(user, id, "attributes.system.queue", to)
    };
    assert_eq!(moved(ADA, "open", "chem"), Ok(()));
    let refusal = "user ada is not allowed to submit jobs to queue bio";
    assert_eq!(moved(ADA, "open", "bio").unwrap_err(), refusal);
    assert_eq!(moved(ADA, "chem", "bio").unwrap_err(), refusal);
    assert_eq!(moved(TestJob::OWNER.as_u32(), "open", "bio"), Ok(()));
}

#[derive(Default)]
struct Shown;

#[jobtap_plugin(name = "shows-partitions")]
impl Shown {
    #[on("slurm.job_submit")]
    fn submit(partitions: Partitions<'_>, cx: Cx<'_, SlurmJobSubmit>) {
        let text = |partition: &jobtap_core::slurm::Partition| {
            let name = partition.name.as_deref().unwrap_or_default();
            match &partition.allow_groups {
                Some(groups) => format!("{name}({groups})"),
                None => name.to_owned(),
            }
        };
        cx.user_message(partitions.iter().map(text).collect::<Vec<_>>().join(" "));
    }

    #[on("slurm.job_modify")]
    fn modify(partitions: Partitions<'_>, cx: Cx<'_, SlurmJobModify>) {
        let names = partitions.iter().filter_map(|partition| partition.name.clone());
        cx.user_message(names.collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn plugins_see_the_partitions_that_a_user_may_use() {
    let mut m = builder(config()).plugin::<Shown>().start();
    let mut seen = |user: u32| {
        m.submit(TestJob::new().user(user)).unwrap();
        m.messages().concat()
    };
    assert_eq!(seen(ADA), "open chem(chem)");
    assert_eq!(seen(BOB), "open bio(bio) night(bio)");
    assert_eq!(seen(TestJob::OWNER.as_u32()), "open chem(chem) bio(bio) night(bio)");
    let id = m.submit(TestJob::new().user(EVE).urgency(0)).unwrap();
    m.messages();
    m.update_as(EVE, id, "attributes.system.queue", "chem").unwrap();
    assert_eq!(m.messages(), ["open chem"]);
}

#[test]
fn a_reload_changes_who_has_access() {
    let mut m = builder(json!({"queues": {"open": {}}})).start();
    m.submit(TestJob::new().user(ADA).queue("open")).unwrap();
    let access = json!({"access": {"allow-group": ["bio"]}});
    m.configure(json!({"queues": {"open": {"policy": access}}})).unwrap();
    assert!(m.submit(TestJob::new().user(ADA).queue("open")).is_err());
    m.submit(TestJob::new().user(BOB).queue("open")).unwrap();
}

#[derive(Default)]
struct Broken;

#[jobtap_plugin(name = "broken")]
impl Broken {
    #[on("slurm.prolog")]
    fn prolog(&self) -> Result<(), PrologFailed> {
        Err(PrologFailed::new("no scratch"))
    }
}

#[test]
fn a_job_that_is_submitted_again_stays_in_its_queue() {
    let mut m = builder(config()).plugin::<Broken>().start();
    m.start_queues().unwrap();
    let id = m.submit(TestJob::new().user(ADA).queue("chem").urgency(0)).unwrap();
    // Meanwhile, only another user may use the queue.
    let mut later = config();
    later["queues"]["chem"]["policy"]["access"] = json!({"allow-user": ["bob"]});
    m.configure(later).unwrap();
    m.urgency(id, 16).unwrap();
    m.assert_state(id, State::Inactive);
    let again = m.jobs().into_iter().find(|job| *job != id).unwrap();
    assert_eq!(m.job(again).jobspec().queue(), Some("chem"));
}
