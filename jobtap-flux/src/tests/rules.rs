//! Tests which functions of Flux the adapter calls for the plugins' commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobtap_core::host::ReplyTo;
use jobtap_core::prelude::*;
use serde_json::Value;

use super::double::{Double, Kit, descriptor};
use crate::adapter::topics;

#[derive(Default)]
struct First;

#[jobtap_plugin(name = "first", load = "by-name")]
impl First {
    #[on("job.state.depend")]
    fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        cx.memo(job, "a", 1)?;
        let added = cx.dependency_add("first")?;
        assert_eq!(job.dependencies().collect::<Vec<_>>(), ["first"]);
        assert!(job.event_posted("memo"));
        cx.dependency_remove(added);
        cx.jobspec_update(path!("attributes.system.a"), 1)?;
        cx.jobspec_update(path!("attributes.system.a"), 2)?;
        cx.jobspec_update(path!("attributes.system.b"), 3)?;
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self) -> Priority {
        Priority::new(7)
    }

    #[on("job.state.sched")]
    fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
        cx.annotate(job, Annotations::new().with("site", json!({"a": 1})))?;
        let other = cx.active_job(JobId::new(2))?;
        cx.annotate(other, Annotations::new().with("site", 1))?;
        cx.raise(job, Exception::new(severity!(3), "note", "x"))?;
        cx.jobspec_update(path!("attributes.system.a"), 1)?;
        Err(HandlerError::new("failed after all"))
    }

    #[on("job.state.run")]
    fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        cx.memo(job, "a", 1)?;
        panic!("as written");
    }
}

#[derive(Default)]
struct Second;

#[jobtap_plugin(name = "second", load = "by-name")]
impl Second {
    #[on("job.state.depend")]
    fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        Ok(cx.memo(job, "second", true)?)
    }

    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::UNAVAILABLE
    }

    #[on("job.state.sched")]
    fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
        Ok(cx.set_flag(job, JobFlag::Debug)?)
    }
}

#[test]
fn what_a_handler_asks_for_comes_before_the_next_plugin() {
    let kit = Kit::new(&[descriptor::<First>(), descriptor::<Second>()]);
    kit.submit(1);
    kit.call("job.state.depend", 1, State::Depend, json!({}));
    let calls = kit.take();
    let memo = |calls: &[String], text: &str| calls.iter().position(|call| call.contains(text));
    assert_eq!(calls[0], "post 1 memo {\"a\":1}");
    assert_eq!(calls[1..3], ["dependency_add 1 first", "dependency_remove 1 first"]);
    // One event has all updates, and for each path the last value counts.
    assert_eq!(
        calls[3],
        "post 1 jobspec-update {\"attributes.system.a\":2,\"attributes.system.b\":3}"
    );
    assert_eq!(memo(&calls, "second"), Some(4), "{calls:?}");
}

#[test]
fn the_last_plugin_decides_the_priority_also_that_there_is_none() {
    let kit = Kit::new(&[descriptor::<First>(), descriptor::<Second>()]);
    kit.submit(1);
    let answer = kit.call("job.state.priority", 1, State::Priority, json!({}));
    assert_eq!(answer.priority, Some(-2));
    let answer = kit.call("job.priority.get", 1, State::Priority, json!({}));
    assert_eq!(answer.priority, Some(7));
}

#[test]
fn an_error_drops_jobspec_updates_and_a_panic_drops_all() {
    let kit = Kit::new(&[descriptor::<First>(), descriptor::<Second>()]);
    kit.submit(1);
    kit.submit(2);
    kit.log();
    let answer = kit.call("job.state.sched", 1, State::Sched, json!({}));
    let memo = r#"rpc job-manager.memo {"id":2,"volatile":true,"memo":{"site":1}}"#;
    assert_eq!(kit.take(), [memo, "raise 1 note 3 x", "set_flag 1 debug"]);
    // The call doesn't fail, so the job goes on, and Flux calls its other plugins too.
    assert_eq!(answer.refusal, None);
    assert_eq!(answer.out.get("annotations"), Some(&json!({"site": {"a": 1}})));
    assert_eq!(kit.log(), ["err: first: job.state.sched: job ƒ2: failed after all"]);
    kit.call("job.state.run", 1, State::Run, json!({}));
    assert_eq!(kit.take(), [""; 0]);
    assert_eq!(kit.log(), ["err: first: job.state.run: job ƒ2: panicked: as written"]);
}

#[derive(Default)]
struct Gates;

#[jobtap_plugin(name = "gates", load = "by-name")]
impl Gates {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        assert!(job.userid() != Uid(6), "user 6");
        Reject::when(job.userid() == Uid(7), "not you")?;
        Ok(())
    }

    #[on("job.dependency.gate")]
    fn dependency(&self, dependency: &Dependency, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        Reject::when(dependency.value == "shut", "the gate is shut")?;
        cx.dependency_add("gate").map(|_| ()).or_reject()
    }

    #[on("job.update.attributes.system.x")]
    fn update(&self, request: &UpdateRequest) -> Result<Update, Reject> {
        Reject::when(!request.cred.owner, "the owner only")?;
        Ok(Update::allow().validated().also(path!("attributes.system.y"), 1))
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        QueryData::new().with("a", 1)
    }
}

#[test]
fn a_gate_refuses_with_its_text_and_a_panic_refuses() {
    let kit = Kit::new(&[descriptor::<Gates>()]);
    let validate = |userid: u32| {
        let answer =
            kit.call("job.validate", u64::from(userid), State::New, json!({"userid": userid}));
        answer.refusal
    };
    assert_eq!(validate(5), None);
    assert_eq!(validate(7).as_deref(), Some("not you"));
    let text = "plugin gates failed; what was asked is refused, please report it";
    assert_eq!(validate(6).as_deref(), Some(text));
    let dependency = |value: &str| {
        let dependency = json!({"dependency": {"scheme": "gate", "value": value}});
        kit.call("job.dependency.gate", 5, State::New, dependency).refusal
    };
    assert_eq!(dependency("open"), None);
    assert_eq!(dependency("shut").as_deref(), Some("the gate is shut"));
}

#[test]
fn an_update_request_is_answered_with_all_that_was_decided() {
    let kit = Kit::new(&[descriptor::<Gates>()]);
    kit.submit(1);
    let request = |rolemask: u32| {
        let cred = json!({"userid": 5, "rolemask": rolemask});
        let more = json!({"key": "attributes.system.x", "value": 3, "cred": cred});
        kit.call("job.update.attributes.system.x", 1, State::Depend, more)
    };
    assert_eq!(request(2).refusal.as_deref(), Some("the owner only"));
    let out = Value::Object(request(1).out);
    let updates = json!({"attributes.system.y": 1});
    assert_eq!(out, json!({"validated": 1, "feasibility": 0, "updates": updates}));
}

#[test]
fn three_panics_fault_a_plugin_and_its_gates_stay_shut() {
    let kit = Kit::new(&[descriptor::<Gates>()]);
    for id in 1..=3 {
        kit.call("job.validate", id, State::New, json!({"userid": 6}));
    }
    assert!(
        kit.log().iter().any(|line| line.contains("gates: faulted after 3 panics within 60 s"))
    );
    let refusal = kit.call("job.validate", 4, State::New, json!({})).refusal.unwrap();
    assert!(refusal.starts_with("plugin gates has failed repeatedly"), "{refusal}");
}

#[test]
fn only_the_schemes_and_keys_that_are_handled_are_registered() {
    let all = topics(&[descriptor::<Gates>()]);
    assert!(all.contains(&"job.dependency.gate".to_owned()), "{all:?}");
    assert!(all.contains(&"job.update.attributes.system.x".to_owned()), "{all:?}");
    let all = topics(&[descriptor::<First>()]);
    // The topics that are called most often come first.
    assert_eq!(all[..3], ["job.priority.get", "job.state.priority", "job.event.*"]);
    assert_eq!(all.last().map(String::as_str), Some("conf.update"));
    let all = topics(&[descriptor::<Watcher>()]);
    assert!(all.contains(&"job.state.run".to_owned()), "{all:?}");
    assert!(all.iter().all(|topic| !topic.starts_with("job.dependency")), "{all:?}");
    assert!(all.iter().all(|topic| !topic.starts_with("job.update.")), "{all:?}");
}

#[derive(Default)]
struct Watcher {
    seen: Vec<String>,
}

#[jobtap_plugin(name = "watcher", load = "by-name")]
impl Watcher {
    #[on("job.*")]
    fn any(&mut self, topic: JobTopic<'_>) {
        self.seen.push(format!("{topic:?}"));
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        if job.id() == JobId::new(1) {
            cx.subscribe(job)?;
            cx.subscribe(job)?;
        }
        Ok(())
    }

    #[on("job.event.*")]
    fn event(&mut self, entry: &EventEntry) {
        self.seen.push(entry.name.to_string());
    }

    #[service("seen")]
    fn seen(&self) -> Vec<String> {
        self.seen.clone()
    }
}

#[test]
fn events_are_delivered_once_and_to_subscribers_only() {
    let kit = Kit::new(&[descriptor::<Watcher>()]);
    kit.submit(1);
    kit.submit(2);
    let owner = Caller { userid: Uid(100), owner: true };
    kit.adapter.request(ReplyTo(9), "job-manager.watcher.seen", owner, json!({}), false);
    let response = kit.take().pop().unwrap();
    assert_eq!(response.matches("\"validate\"").count(), 1, "{response}");
    assert!(response.starts_with("respond 9 [\"Create\""), "{response}");
}

/// Data that is a number.
#[derive(Default, Serialize, Deserialize)]
struct Count(u32);

#[derive(Default)]
struct Counts;

#[jobtap_plugin(name = "counts", load = "by-name", data = Count, instance_data = Count)]
impl Counts {
    #[on("job.validate")]
    fn validate(&self, count: Data<'_, Count>) -> Result<(), Reject> {
        count.update(|count| count.0 += 1).or_reject()
    }

    #[on("job.state.priority")]
    fn priority(
        &self,
        count: Data<'_, Count>,
        all: InstanceData<'_, Count>,
    ) -> Result<Priority, HandlerError> {
        all.update(|all| all.0 += 1)?;
        Ok(Priority::new(count.update(|count| {
            count.0 += 1;
            count.0
        })?))
    }
}

#[test]
fn data_is_stored_once_the_job_is_accepted() {
    let kit = Kit::new(&[descriptor::<Counts>()]);
    let key = format!("{}.data.counts", JobId::new(1).encode(jobtap_core::job::Encoding::Kvs));
    kit.call("job.create", 1, State::New, json!({}));
    kit.call("job.validate", 1, State::New, json!({}));
    assert_eq!(kit.take(), ["subscribe 1"]);
    kit.call("job.new", 1, State::New, json!({}));
    assert_eq!(kit.take(), [format!("commit {key}")]);
    // Nothing is stored for a rejected job.
    kit.call("job.create", 2, State::New, json!({}));
    kit.call("job.validate", 2, State::New, json!({}));
    kit.call("job.destroy", 2, State::New, json!({}));
    assert_eq!(kit.take(), ["subscribe 2"]);
    // Only one transaction is in progress at a time. The next one has all values that came meanwhile.
    kit.event(1, "validate", State::Depend, json!({}));
    let answer = kit.call("job.state.priority", 1, State::Priority, json!({}));
    assert_eq!(answer.priority, Some(2));
    kit.call("job.state.priority", 1, State::Priority, json!({}));
    assert_eq!(kit.take(), ["lookup jobtap.data.counts"]);
    kit.adapter.committed(Ok(()));
    assert_eq!(kit.take(), [format!("commit {key} jobtap.data.counts")]);
    assert_eq!(kit.flux.kvs.borrow()["jobtap.data.counts"], r#"{"version":1,"data":2}"#);
}

#[test]
fn data_of_an_earlier_run_is_looked_up_and_never_taken_for_missing() {
    let kit = Kit::new(&[descriptor::<Counts>()]);
    let key = format!("{}.data.counts", JobId::new(1).encode(jobtap_core::job::Encoding::Kvs));
    kit.flux.kvs.borrow_mut().insert(key, r#"{"version":1,"data":5}"#.to_owned());
    kit.call("job.new", 1, State::Priority, json!({}));
    // The job was introduced in PRIORITY, so the plugin was called for its priority.
    assert!(kit.take().contains(&"reprioritize 1 6".to_owned()));
    kit.flux.failing.borrow_mut().insert("lookup");
    kit.call("job.new", 2, State::Priority, json!({}));
    assert!(kit.take().iter().all(|call| !call.starts_with("reprioritize")));
    assert!(kit.log().iter().any(|line| line.contains("data of job")), "{:?}", kit.log());
}

#[derive(Default)]
struct Opens {
    open: Vec<Token>,
}

#[jobtap_plugin(name = "opens", load = "by-name")]
impl Opens {
    #[on("job.state.run")]
    fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        let token = cx.prolog_start("gate")?;
        if job.userid() == Uid(6) {
            drop(token)
        } else {
            self.open.push(token)
        }
        Ok(())
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
        if let Ok(token) = cx.prolog_reopen(job, "mine") {
            self.open.push(token);
        }
    }

    #[service("lift")]
    fn lift(&mut self) {
        self.open.drain(..).for_each(|token| token.finish(0));
    }
}

#[test]
fn a_dropped_token_ends_its_job_before_the_prolog() {
    let kit = Kit::new(&[descriptor::<Opens>()]);
    kit.allocate(1);
    kit.call("job.state.run", 1, State::Run, json!({"userid": 5}));
    let start = r#"post 1 prolog-start {"description":"gate","plugin":"opens"}"#;
    assert_eq!(kit.take(), [start]);
    kit.allocate(2);
    let dropped = Kit::new(&[descriptor::<Opens>()]);
    dropped.call("job.create", 2, State::New, json!({"userid": 6}));
    dropped.call("job.state.run", 2, State::Run, json!({"userid": 6}));
    dropped.take();
    dropped.until(|calls| calls.len() == 2);
    let note = "gate of plugin opens ended without a result";
    assert_eq!(
        dropped.take(),
        [format!("raise 2 prolog 0 {note}"), "prolog_finish 2 gate 1".to_owned()]
    );
}

#[test]
fn a_removal_fails_what_is_open_and_the_end_of_the_manager_leaves_it() {
    for is_removal in [true, false] {
        let kit = Kit::new(&[descriptor::<Opens>()]);
        kit.allocate(1);
        kit.call("job.state.run", 1, State::Run, json!({}));
        kit.take();
        if !is_removal {
            kit.flux.jobs.borrow_mut().clear();
        }
        kit.adapter.unload();
        let failed =
            ["raise 1 prolog 0 prolog gate: its plugin was removed", "prolog_finish 1 gate 1"];
        assert_eq!(kit.take(), if is_removal { &failed[..] } else { &[] });
    }
}

/// Returns the eventlog of a job in which these plugins have open prologs.
fn log(prologs: &[(&str, &str)]) -> String {
    let mut log = String::new();
    let mut add = |name: &str, context: Value| {
        log += &format!("{}\n", json!({"timestamp": 1.0, "name": name, "context": context}));
    };
    add("submit", json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1}));
    for name in ["validate", "depend"] {
        add(name, json!({}));
    }
    add("priority", json!({"priority": 16}));
    add("alloc", json!({}));
    for (description, plugin) in prologs {
        add("prolog-start", json!({"description": description, "plugin": plugin}));
    }
    log
}

#[derive(Default)]
struct Again;

#[jobtap_plugin(name = "again", load = "by-name")]
impl Again {
    #[on("job.state.run", on_restart = "rerun")]
    async fn rerun(remote: Remote<Self>) -> Result<(), PrologFailed> {
        Ok(remote.sleep(0.0).await?)
    }

    #[on("job.state.depend")]
    async fn depend(job: JobInfo) -> Result<(), Reject> {
        Reject::when(job.userid == Uid(6), "no")
    }
}

#[test]
fn after_a_restart_prologs_are_taken_over_run_again_or_fail() {
    let kit = Kit::new(&[descriptor::<Opens>(), descriptor::<Again>()]);
    let key = format!("{}.eventlog", JobId::new(1).encode(jobtap_core::job::Encoding::Kvs));
    let prologs =
        [("mine", "opens"), ("lost", "opens"), ("again.rerun", "again"), ("perilog", "other")];
    kit.flux.kvs.borrow_mut().insert(key.clone(), log(&prologs));
    kit.call("job.create", 1, State::Run, json!({}));
    assert_eq!(kit.take(), [format!("lookup {key}"), "subscribe 1".to_owned()]);
    kit.call("job.new", 1, State::Run, json!({}));
    let note = "prolog lost: the job manager was restarted while it was open";
    assert_eq!(
        kit.take(),
        [format!("raise 1 prolog 0 {note}"), "prolog_finish 1 lost 1".to_owned()]
    );
    // The work that runs again has set a timer.
    kit.until(|_| kit.flux.timer.get().is_some());
    kit.adapter.timer();
    kit.until(|calls| !calls.is_empty());
    assert_eq!(kit.take(), ["prolog_finish 1 again.rerun 0"]);
}

#[test]
fn an_asynchronous_dependency_is_removed_or_ends_the_job() {
    let kit = Kit::new(&[descriptor::<Again>()]);
    kit.submit(1);
    kit.call("job.state.depend", 1, State::Depend, json!({}));
    assert_eq!(kit.take(), ["dependency_add 1 again.depend"]);
    kit.event(1, "dependency-add", State::Depend, json!({"description": "again.depend"}));
    kit.until(|calls| !calls.is_empty());
    assert_eq!(kit.take(), ["dependency_remove 1 again.depend"]);
    kit.call("job.create", 2, State::New, json!({"userid": 6}));
    kit.call("job.state.depend", 2, State::Depend, json!({"userid": 6}));
    kit.take();
    kit.until(|calls| !calls.is_empty());
    assert_eq!(kit.take(), ["raise 2 dependency 0 no"]);
}

#[test]
fn work_that_a_job_no_longer_waits_for_is_aborted_and_its_prolog_finished() {
    let kit = Kit::new(&[descriptor::<Again>()]);
    kit.allocate(1);
    kit.call("job.state.run", 1, State::Run, json!({}));
    kit.take();
    let cancel = json!({"type": "cancel", "severity": 0, "note": "", "userid": 5});
    kit.event(1, "exception", State::Cleanup, cancel);
    assert_eq!(kit.take(), ["prolog_finish 1 again.rerun 1"]);
}

#[test]
fn work_that_is_never_taken_out_is_freed_with_the_adapter() {
    let kit = Kit::new(&[descriptor::<Again>()]);
    kit.allocate(1);
    // The handler sends a timer for which it waits. The timer's work is in the inbox and holds a reference to it.
    kit.call("job.state.run", 1, State::Run, json!({}));
    let inbox = kit.drop_with_work();
    let end = Instant::now() + Duration::from_secs(20);
    // The thread of the handler ends a moment later than the adapter.
    while Arc::strong_count(&inbox) > 1 {
        assert!(Instant::now() < end, "something still holds the inbox");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Default)]
struct Removes;

#[jobtap_plugin(name = "removes", load = "by-name")]
impl Removes {
    #[on("job.dependency.removes")]
    fn dependency(&self, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add("it").map(|_| ()).or_reject()
    }

    #[on("job.update")]
    fn update(&self, job: &Job, cx: Cx<'_, JobUpdate>) {
        if let Some(dependency) = job.dependency("it") {
            cx.dependency_remove(dependency);
        }
    }

    #[on("job.state.priority")]
    fn next(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<(), HandlerError> {
        let next = JobId::new(job.id().as_u64() + 1);
        if let Ok(next) = cx.active_job(next)
            && let Some(dependency) = next.dependency("it")
        {
            cx.dependency_remove(dependency);
        }
        Ok(())
    }
}

/// Submits a job that waits in DEPEND for the dependency `it`.
fn waiting(kit: &Kit, id: u64) {
    kit.call("job.create", id, State::New, json!({}));
    let dependency = json!({"dependency": {"scheme": "removes", "value": ""}});
    kit.call("job.dependency.removes", id, State::New, dependency);
    kit.event(id, "dependency-add", State::New, json!({"description": "it"}));
    kit.call("job.new", id, State::New, json!({}));
    kit.event(id, "validate", State::Depend, json!({}));
    kit.take();
}

#[test]
fn a_dependency_is_removed_once_and_only_while_it_is_held() {
    let kit = Kit::new(&[descriptor::<Removes>()]);
    waiting(&kit, 1);
    let update = |state| kit.call("job.update", 1, state, json!({"updates": {}}));
    update(State::Depend);
    assert_eq!(kit.take(), ["dependency_remove 1 it"]);
    // The removal is posted but not applied yet. Flux would accept another one, and the job would stay in DEPEND.
    update(State::Depend);
    assert_eq!(kit.take(), [""; 0]);
    kit.event(1, "dependency-remove", State::Depend, json!({"description": "it"}));
    update(State::Depend);
    assert_eq!(kit.take(), [""; 0]);
}

#[test]
fn a_chain_of_jobs_that_free_each_other_needs_little_stack() {
    use std::cell::Cell;
    use std::rc::Rc;
    const JOBS: u64 = 3_000;
    let kit = Rc::new(Kit::new(&[descriptor::<Removes>()]));
    for id in 1..=JOBS {
        waiting(&kit, id);
    }
    let (weak, deepest, depth) = (Rc::downgrade(&kit), Rc::new(Cell::new(0)), Cell::new(0));
    let seen = Rc::clone(&deepest);
    // If a job is idle, Flux applies the change before the call returns.
    *kit.flux.hook.borrow_mut() = Some(Box::new(move |call| {
        let Some(rest) = call.strip_prefix("dependency_remove ") else { return };
        let id: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        let Some(kit) = weak.upgrade() else { return };
        depth.set(depth.get() + 1);
        seen.set(seen.get().max(depth.get()));
        kit.event(id, "dependency-remove", State::Depend, json!({"description": "it"}));
        kit.event(id, "depend", State::Priority, json!({}));
        kit.call("job.state.priority", id, State::Priority, json!({}));
        depth.set(depth.get() - 1);
    }));
    kit.call("job.state.priority", 0, State::Priority, json!({}));
    let removed = kit.take().iter().filter(|call| call.starts_with("dependency_remove")).count();
    assert_eq!(removed as u64, JOBS);
    assert!(deepest.get() < 100, "{}", deepest.get());
    kit.flux.hook.borrow_mut().take();
}

#[derive(Default)]
struct Serves {
    waiting: Vec<Responder<u32>>,
}

#[jobtap_plugin(name = "serves", load = "by-name")]
impl Serves {
    #[service("double")]
    fn double(&self, number: Request<u32>) -> Result<u32, ServiceError> {
        assert!(*number != 13, "unlucky");
        number.checked_mul(2).ok_or_else(|| ServiceError::invalid("too much"))
    }

    #[service("wait")]
    fn wait(&mut self, responder: Responder<u32>) {
        self.waiting.push(responder);
    }

    #[service("go")]
    fn go(&mut self) -> Result<(), ServiceError> {
        for responder in &mut self.waiting {
            responder.send(&1)?;
        }
        self.waiting.clear();
        Ok(())
    }
}

#[test]
fn a_service_answers_now_later_with_an_error_or_as_a_stream() {
    let kit = Kit::new(&[descriptor::<Serves>()]);
    let owner = Caller { userid: Uid(100), owner: true };
    let ask = |to: u64, method: &str, payload: Value, streaming: bool| {
        let topic = format!("job-manager.serves.{method}");
        kit.adapter.request(ReplyTo(to), &topic, owner, payload, streaming);
        kit.take()
    };
    assert_eq!(ask(1, "double", json!(4), false), [r#"respond 1 8 true"#]);
    assert_eq!(ask(2, "double", json!(u32::MAX), false), ["error 2 22 too much"]);
    assert_eq!(
        ask(3, "double", json!(13), false),
        ["error 3 5 plugin serves failed; please report it"]
    );
    assert!(ask(4, "double", json!("x"), false)[0].starts_with("error 4 71 invalid type"));
    assert_eq!(
        ask(5, "none", json!({}), false),
        ["error 5 38 Unknown service method 'job-manager.serves.none'"]
    );
    assert_eq!(ask(6, "wait", json!({}), false), [""; 0]);
    assert_eq!(ask(7, "wait", json!({}), true), [""; 0]);
    assert_eq!(ask(8, "go", json!({}), false), ["respond 8 {} true"]);
    kit.until(|calls| calls.len() == 3);
    assert_eq!(kit.take(), [r#"respond 6 1 true"#, r#"respond 7 1 false"#, "error 7 61 "]);
    assert_eq!(ask(9, "wait", json!({}), false), [""; 0]);
    kit.adapter.unload();
    assert_eq!(kit.take(), ["error 9 38 plugin serves was removed before it answered"]);
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Table {
    a: u32,
}

struct Configured {
    a: u32,
}

#[jobtap_plugin(name = "configured", load = "by-name")]
impl Configured {
    #[init]
    fn new(table: Conf<Table>) -> Result<Self, ConfError> {
        assert!(table.a != 13, "unlucky");
        Ok(Self { a: table.a })
    }

    #[on("conf.update")]
    fn update(&mut self, table: Conf<Table>) -> Result<(), ConfError> {
        if table.a > 9 {
            return Err(ConfError::new("a: at most 9"));
        }
        self.a = table.a;
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        QueryData::new().with("a", self.a)
    }
}

#[test]
fn a_plugin_has_what_was_given_over_its_table() {
    let given = |given: Value| Double { given: Some(given), ..Double::default() };
    let asked = |kit: &Kit| Value::Object(kit.adapter.call("plugin.query", None).out);
    let table = json!({"plugins": {"configured": {"a": 3}}});
    let kit = Kit::unloaded(&[descriptor::<Configured>()], given(json!({})));
    assert_eq!(kit.configure(table.clone()).refusal, None);
    assert_eq!(asked(&kit), json!({"a": 3}));
    // A reload that is refused leaves the old configuration.
    assert_eq!(
        kit.configure(json!({"plugins": {"configured": {"a": 10}}})).refusal.as_deref(),
        Some("a: at most 9")
    );
    assert_eq!(asked(&kit), json!({"a": 3}));
    let kit = Kit::unloaded(&[descriptor::<Configured>()], given(json!({"a": 5})));
    assert_eq!(kit.configure(table.clone()).refusal, None);
    assert_eq!(asked(&kit), json!({"a": 5}));
    // With several plugins, each has a table.
    let both = [descriptor::<Configured>(), descriptor::<Gates>()];
    let kit = Kit::unloaded(&both, given(json!({"configured": {"a": 6}})));
    assert_eq!(kit.configure(table.clone()).refusal, None);
    assert_eq!(asked(&kit), json!({"configured": {"a": 6}, "gates": {"a": 1}}));
    for (given_value, text) in [
        (json!({"a": 6}), "conf: \"a\" is not a plugin of this file, which has configured, gates"),
        (json!({"configured": 6}), "conf of configured must be a table"),
        (json!({"configured": {"b": 6}}), "[plugins.configured]: unknown key \"b\""),
        (json!({"configured": {"a": 13}}), "configured: #[init] panicked: unlucky"),
        (
            json!({"gates": {"b": 6}}),
            "[plugins.gates]: unknown key \"b\": this plugin takes no configuration",
        ),
    ] {
        let kit = Kit::unloaded(&both, given(given_value));
        let refusal = kit.configure(json!({})).refusal.unwrap_or_default();
        assert!(refusal.starts_with(text), "{refusal}");
    }
}

#[derive(Default)]
struct Timers;

#[jobtap_plugin(name = "timers", load = "by-name")]
impl Timers {
    #[on("job.new")]
    fn new_job(&self, job: &Job, remote: Remote<Self>, cx: Cx<'_, JobNew>) {
        for seconds in [30.0, 10.0, 20.0] {
            let id = job.id();
            remote.at(cx.now() + seconds, move |_, cx| {
                if let Ok(job) = cx.active_job(id) {
                    let _ = cx.memo(job, "after", seconds);
                }
            });
        }
    }
}

#[test]
fn timers_fire_in_their_order_and_only_when_due() {
    let kit = Kit::new(&[descriptor::<Timers>()]);
    kit.submit(1);
    kit.adapter.wake();
    assert_eq!(kit.flux.timer.get(), Some(10.0));
    kit.flux.now.set(1010.0);
    kit.adapter.timer();
    assert_eq!(kit.take(), [r#"post 1 memo {"after":10.0}"#]);
    assert_eq!(kit.flux.timer.get(), Some(10.0));
    kit.flux.now.set(1040.0);
    kit.adapter.timer();
    assert_eq!(kit.take(), [r#"post 1 memo {"after":20.0}"#, r#"post 1 memo {"after":30.0}"#]);
    assert_eq!(kit.flux.timer.get(), None);
}

#[test]
fn a_defect_that_unwinds_through_the_adapter_leaves_it_working() {
    let kit = Kit::new(&[descriptor::<Counts>()]);
    kit.submit(1);
    kit.adapter.committed(Ok(()));
    kit.take();
    *kit.flux.hook.borrow_mut() =
        Some(Box::new(|call| assert!(!call.starts_with("lookup"), "a defect")));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        kit.call("job.state.priority", 9, State::Priority, json!({}));
    }));
    assert!(unwound.is_err());
    kit.flux.hook.borrow_mut().take();
    kit.take();
    assert_eq!(kit.call("job.state.priority", 1, State::Priority, json!({})).priority, Some(2));
    assert!(kit.take().iter().any(|call| call.starts_with("commit ")), "data is stored again");
}

#[derive(Default)]
struct Early;

#[jobtap_plugin(name = "early", load = "by-name")]
impl Early {
    #[on("job.dependency.early")]
    fn dependency(
        &self,
        job: &Job,
        remote: Remote<Self>,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        cx.dependency_add("early").or_reject()?;
        let id = job.id();
        remote.at(cx.now() + 1.0, move |_, cx| match cx.active_job(id) {
            Err(error) => cx.log(Level::Error, error.to_string()),
            Ok(job) => match job.dependency("early") {
                Some(dependency) => cx.dependency_remove(dependency),
                None => cx.log(Level::Error, "no dependency"),
            },
        });
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(&self, job: &Job, prev: PrevState, cx: Cx<'_, JobStateDepend>) {
        cx.log(Level::Info, format!("{:?} after {:?}", job.state(), prev.0));
    }
}

#[test]
fn what_comes_before_a_submission_is_stored_waits_for_it() {
    let kit = Kit::new(&[descriptor::<Early>()]);
    kit.call("job.create", 1, State::New, json!({}));
    let dependency = json!({"dependency": {"scheme": "early", "value": ""}});
    kit.call("job.dependency.early", 1, State::New, dependency);
    kit.event(1, "dependency-add", State::New, json!({"description": "early"}));
    kit.call("job.new", 1, State::New, json!({}));
    kit.adapter.wake();
    kit.take();
    // The timer fires before Flux has stored the submission: the job is still in NEW.
    kit.flux.now.set(1002.0);
    kit.adapter.timer();
    assert_eq!((kit.take(), kit.log()), (vec![], vec![]));
    // Another event before `validate` doesn't change that.
    kit.event(1, "memo", State::New, json!({"a": 1}));
    assert_eq!(kit.take(), [""; 0]);
    kit.event(1, "validate", State::Depend, json!({}));
    assert_eq!(kit.take(), ["dependency_remove 1 early"]);
    kit.call("job.state.depend", 1, State::Depend, json!({"prev_state": 1}));
    assert_eq!(kit.log(), ["info: early: Depend after Some(New)"]);
}

/// Makes a function of Flux fail.
fn fail(kit: &Kit, function: &'static str) {
    kit.flux.failing.borrow_mut().insert(function);
    kit.log();
}

#[test]
fn an_exception_that_cannot_be_raised_is_logged_and_the_prolog_finished() {
    // The work of a handler fails, and the exception for it can't be raised either.
    let kit = Kit::new(&[descriptor::<Opens>()]);
    kit.call("job.create", 1, State::New, json!({"userid": 6}));
    fail(&kit, "raise");
    kit.call("job.state.run", 1, State::Run, json!({"userid": 6}));
    kit.until(|calls| calls.iter().any(|call| call == "prolog_finish 1 gate 1"));
    let refused = "flux_jobtap_raise_exception: Invalid argument (os error 22)";
    assert_eq!(kit.log(), [format!("warning: opens: later: dropped: {refused}")]);

    // A plugin is removed while its prolog is open.
    let kit = Kit::new(&[descriptor::<Opens>()]);
    kit.allocate(1);
    kit.call("job.state.run", 1, State::Run, json!({}));
    fail(&kit, "raise");
    kit.adapter.unload();
    assert!(kit.take().contains(&"prolog_finish 1 gate 1".to_owned()));
    assert_eq!(kit.log(), [format!("err: prolog gate of {}: {refused}", JobId::new(1))]);
}

#[test]
fn a_prolog_that_cannot_be_finished_is_logged() {
    let kit = Kit::new(&[descriptor::<Opens>()]);
    kit.allocate(1);
    kit.call("job.state.run", 1, State::Run, json!({}));
    fail(&kit, "prolog_finish");
    kit.adapter.unload();
    let refused = "flux_jobtap_prolog_finish: Invalid argument (os error 22)";
    assert_eq!(kit.log(), [format!("err: prolog gate of {}: {refused}", JobId::new(1))]);
}

#[derive(Default)]
struct Given;

#[jobtap_plugin(name = "given", load = "by-name")]
impl Given {
    #[on("job.state.depend", on_restart = "fail")]
    async fn depend() -> Result<(), Reject> {
        Ok(())
    }

    #[on("job.state.sched")]
    fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) {
        let raised = cx.raise(job, Exception::new(severity!(4), "given", ""));
        assert_eq!(raised, Ok(()));
    }
}

#[test]
fn exceptions_of_handlers_and_of_lost_dependencies_that_fail_are_logged() {
    let kit = Kit::new(&[descriptor::<Given>()]);
    fail(&kit, "raise");
    kit.call("job.create", 1, State::New, json!({}));
    kit.call("job.state.sched", 1, State::Sched, json!({}));
    let refused = "Invalid argument (os error 22)";
    let line = "warning: given: job.state.sched: dropped: flux_jobtap_raise_exception: ";
    assert_eq!(kit.log(), [format!("{line}{refused}")]);

    // After a restart.
    let mut log = String::new();
    for (name, context) in [
        ("submit", json!({"userid": 5, "urgency": 16, "flags": 0, "version": 1})),
        ("dependency-add", json!({"description": "given.depend"})),
        ("validate", json!({})),
    ] {
        log += &format!("{}\n", json!({"timestamp": 1.0, "name": name, "context": context}));
    }
    let key = format!("{}.eventlog", JobId::new(2).encode(jobtap_core::job::Encoding::Kvs));
    kit.flux.kvs.borrow_mut().insert(key, log);
    kit.call("job.create", 2, State::Depend, json!({}));
    kit.call("job.new", 2, State::Depend, json!({}));
    let note = "dependency given.depend: the job manager was restarted while it was open";
    assert_eq!(kit.log(), [format!("err: job {}: {note}: {refused}", JobId::new(2))]);
}
