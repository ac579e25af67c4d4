//! `dependency-dataflow`: jobs wait for each other according to the data that they read and write.

use jobtap_builtins::{DependencyDataflow, PriorityDefault};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

const NAME: &str = "dependency-dataflow";

fn manager() -> TestManager {
    let config = json!({"job-manager": {"plugins": [{"load": NAME}]}});
    let m = TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyDataflow>();
    m.config(config).cores(64).start()
}

fn job(uri: &str) -> TestJob {
    TestJob::new().dependency(uri)
}

/// Returns a job that reads or writes one of the user's strings.
fn submit_using(m: &mut TestManager, kind: &str, value: &str) -> JobId {
    m.submit(job(&format!("string:{value}?type={kind}&scope=user"))).unwrap()
}

const AT_ONCE: &str = "submit validate depend priority alloc start";
const RELEASED: &str =
    "submit dependency-add validate dependency-remove depend priority alloc start";

#[test]
fn readers_wait_for_the_writer_and_run_together() {
    let mut m = manager();
    let writer = submit_using(&mut m, "out", "A");
    let readers = [submit_using(&mut m, "in", "A"), submit_using(&mut m, "in", "A")];
    let other = submit_using(&mut m, "in", "B");
    m.assert_events(other, AT_ONCE);
    m.assert_state(readers[0], State::Depend);
    let add = m.eventlog(readers[0])[1].context.clone().unwrap();
    assert_eq!(add["description"], "string-in=user:A");
    m.finish(writer, 3);
    for reader in readers {
        m.assert_events(reader, RELEASED);
    }
}

#[test]
fn a_writer_waits_for_all_before_it() {
    let mut m = manager();
    let readers = [submit_using(&mut m, "in", "A"), submit_using(&mut m, "in", "A")];
    let writers = [submit_using(&mut m, "out", "A"), submit_using(&mut m, "inout", "A")];
    let late = submit_using(&mut m, "in", "A");
    m.finish(readers[1], 0);
    m.assert_state(writers[0], State::Depend);
    m.cancel(readers[0]).unwrap();
    m.assert_state(writers[0], State::Run);
    m.assert_state(writers[1], State::Depend);
    m.finish(writers[0], 0);
    m.assert_state(writers[1], State::Run);
    m.assert_state(late, State::Depend);
    m.finish(writers[1], 0);
    m.assert_state(late, State::Run);
}

#[test]
fn cancelling_a_waiting_job_lets_no_other_pass() {
    let mut m = manager();
    let first = submit_using(&mut m, "out", "A");
    let second = submit_using(&mut m, "out", "A");
    let third = submit_using(&mut m, "out", "A");
    m.cancel(second).unwrap();
    m.assert_state(third, State::Depend);
    m.finish(first, 0);
    m.assert_state(third, State::Run);
}

#[test]
fn scopes_are_separate_and_global_is_shared() {
    let mut m = manager();
    submit_using(&mut m, "out", "A");
    let others = m.submit(job("string:A?type=in&scope=user").user(7)).unwrap();
    m.assert_events(others, AT_ONCE);
    let writer = m.submit(job("string:A?type=out&scope=global").user(7)).unwrap();
    let reader = m.submit(job("string:A?type=in&scope=global")).unwrap();
    m.assert_state(reader, State::Depend);
    m.finish(writer, 0);
    m.assert_state(reader, State::Run);
}

#[test]
fn a_job_with_several_accesses_does_not_block_itself() {
    let mut m = manager();
    let both = "string:A?type=in&scope=user";
    let all = |job: TestJob| {
        let job = job.dependency("string:A?type=out&scope=user");
        job.dependency("string:A?type=inout&scope=user")
    };
    let first = m.submit(all(job(both))).unwrap();
    m.assert_events(first, AT_ONCE);
    let second = m.submit(all(job(both))).unwrap();
    m.assert_state(second, State::Depend);
    m.finish(first, 0);
    m.assert_state(second, State::Run);
}

#[test]
fn a_fluid_names_a_job_and_its_data() {
    let mut m = manager();
    let target = m.submit(TestJob::new()).unwrap();
    let decimal = target.as_u64();
    let writer = m.submit(job(&format!("fluid:{decimal}?type=inout&scope=user"))).unwrap();
    let reader = m.submit(job(&format!("fluid:{target}?type=in&scope=user"))).unwrap();
    m.assert_state(writer, State::Depend);
    m.finish(target, 0);
    m.assert_state(writer, State::Run);
    m.assert_state(reader, State::Depend);
    m.finish(writer, 0);
    m.assert_state(reader, State::Run);
    let after = m.submit(job(&format!("fluid:{target}?type=in&scope=user"))).unwrap();
    m.assert_events(after, AT_ONCE);
}

#[test]
fn malformed_accesses_are_refused() {
    let mut m = manager();
    let target = m.submit(TestJob::new().user(7)).unwrap();
    let mut refusal = |uri: &str| m.submit(job(uri)).unwrap_err();
    assert_eq!(refusal("string:A?scope=user"), "dependency: string: type must be in, out or inout");
    assert_eq!(
        refusal("string:A?type=in&scope=group"),
        "dependency: string: scope must be user or global"
    );
    assert_eq!(
        refusal("fluid:bar?type=in&scope=user"),
        "dependency: fluid: \"bar\" is not a valid jobid"
    );
    assert_eq!(
        refusal("fluid:1234?type=in&scope=user"),
        "dependency: fluid: id 1234: job not found"
    );
    assert_eq!(
        refusal(&format!("fluid:{target}?type=in&scope=user")),
        format!("fluid: Permission denied for job {target}")
    );
    let waits = m.submit(job(&format!("fluid:{target}?type=in&scope=global"))).unwrap();
    m.assert_state(waits, State::Depend);
}

#[test]
fn a_rejected_job_delays_no_other() {
    let mut m = manager();
    m.submit(job("string:A?type=out&scope=user").dependency("nonsense:1")).unwrap_err();
    let id = submit_using(&mut m, "in", "A");
    m.assert_events(id, AT_ONCE);
}

#[test]
fn loading_it_again_releases_jobs_freed_meanwhile() {
    let mut m = manager();
    let writer = submit_using(&mut m, "out", "A");
    let reader = submit_using(&mut m, "in", "A");
    m.remove_plugin(NAME).unwrap();
    m.finish(writer, 0);
    m.assert_state(reader, State::Depend);
    assert!(m.why(reader)[0].contains("no loaded plugin looks after that"), "{:?}", m.why(reader));
    m.load_plugin(NAME, json!({})).unwrap();
    m.assert_state(reader, State::Run);
}

#[derive(Debug, Clone)]
enum Act {
    /// Jobs with their user and their access to each string: 0 does not use it, 1 reads it, 2 writes it.
    Submit(u32, [u8; 2]),
    Finish(usize),
    Cancel(usize),
    Restart,
    Reload,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u32..2, [0u8..3, 0u8..3]).prop_map(|(user, accesses)| Act::Submit(7 + user, accesses)),
        3 => any::<usize>().prop_map(Act::Finish),
        1 => any::<usize>().prop_map(Act::Cancel),
        1 => Just(Act::Restart),
        1 => Just(Act::Reload),
    ]
}

proptest! {
    #[test]
    fn a_job_waits_exactly_as_long_as_an_earlier_one_conflicts(acts in vec(act(), 0..40)) {
        let mut m = manager();
        let mut jobs: Vec<(JobId, [u8; 2])> = Vec::new();
        for act in acts {
            jobs.retain(|(id, _)| m.job(*id).state() != State::Inactive);
            let pick = |i: usize| jobs.get(i % jobs.len().max(1)).map(|(id, _)| *id);
            match act {
                Act::Submit(user, accesses) => {
                    let mut job = TestJob::new().user(user);
                    for (name, access) in ["A", "B"].into_iter().zip(accesses) {
                        if let Some(kind) = [None, Some("in"), Some("out")][usize::from(access)] {
                            job = job.dependency(&format!("string:{name}?type={kind}&scope=global"));
                        }
                    }
                    jobs.push((m.submit(job).unwrap(), accesses));
                }
                Act::Finish(i) => {
                    if let Some(id) = pick(i).filter(|id| m.job(*id).state() == State::Run) {
                        m.finish(id, 0);
                    }
                }
                Act::Cancel(i) => pick(i).into_iter().for_each(|id| m.cancel(id).unwrap()),
                Act::Restart => m.crash_and_restart(),
                Act::Reload => m.reload_plugin(NAME, json!({})).unwrap(),
            }
            jobs.retain(|(id, _)| m.job(*id).state() != State::Inactive);
            for (i, (id, mine)) in jobs.iter().enumerate() {
                let in_the_way = jobs[..i].iter().any(|(_, theirs)| {
                    mine.iter().zip(theirs).any(|(a, b)| *a > 0 && *b > 0 && a + b > 2)
                });
                let state = if in_the_way { State::Depend } else { State::Run };
                m.assert_state(*id, state);
            }
        }
    }
}
