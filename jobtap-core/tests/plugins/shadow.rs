//! Shadows: plugins that are called beside the live ones, and decide nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jobtap_core::engine::{ShadowDifference, ShadowReport};
use jobtap_core::host::Ticks;
use jobtap_core::job::{JobId, State};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::common::ByUrgency;

/// The differences, as `KIND LIVE | SHADOW`.
fn texts(report: &ShadowReport) -> Vec<String> {
    let text = |d: &ShadowDifference| format!("{} {} | {}", d.kind, d.live, d.shadow);
    report.differences.iter().map(text).collect()
}

/// Limits the number of active jobs per user, and sets a priority.
#[derive(Default)]
struct Quota {
    most: usize,
    priority: u32,
    jobs: BTreeMap<u32, usize>,
}

#[derive(Deserialize)]
struct QuotaConf {
    most: usize,
    #[serde(default = "some")]
    priority: u32,
}

fn some() -> u32 {
    5
}

#[jobtap_plugin(name = "quota")]
impl Quota {
    #[init]
    fn new(conf: Conf<QuotaConf>) -> Self {
        let QuotaConf { most, priority } = conf.into_inner();
        Self { most, priority, jobs: BTreeMap::new() }
    }

    #[on("job.validate")]
    fn check(&self, job: &Job) -> Result<(), Reject> {
        let jobs = self.jobs.get(&job.userid().0).copied().unwrap_or(0);
        Reject::when(jobs >= self.most, format!("{jobs} jobs already"))
    }

    #[on("job.new")]
    fn count(&mut self, job: &Job) {
        *self.jobs.entry(job.userid().0).or_default() += 1;
    }

    #[on("job.state.inactive")]
    fn uncount(&mut self, job: &Job) {
        if let Some(jobs) = self.jobs.get_mut(&job.userid().0) {
            *jobs -= 1;
        }
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self) -> Priority {
        Priority::new(self.priority)
    }

    #[service("most")]
    fn most(&self) -> usize {
        self.most
    }
}

/// A manager with `quota` live, and a shadow of it with another configuration.
fn quotas(live: Value, shadow: Value) -> TestManager {
    let config = json!({"plugins": {"quota": live}});
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Quota>().config(config).start();
    m.load_shadow("quota", shadow).unwrap();
    m
}

#[test]
fn a_shadow_keeps_its_own_state_and_refuses_nothing() {
    let mut m = quotas(json!({"most": 10}), json!({"most": 2}));
    let jobs: Vec<JobId> = (0..4).map(|_| m.submit(TestJob::new().user(7)).unwrap()).collect();
    let report = m.shadow("quota").unwrap();
    assert!(report.live);
    assert_eq!((report.refuses, report.jobs, report.compared > report.different), (2, 2, true));
    let refusal = "verdict accepts | refuses: 2 jobs already";
    assert_eq!(texts(&report), [refusal, refusal]);
    assert_eq!((report.users[0].user, report.users[0].refuses), (7, 2));
    assert_eq!(report.differences[0].topic, "job.validate");
    assert_eq!(report.differences[0].job, Some(jobs[2]));
    // The shadow doesn't count the jobs that it has refused, since they would not exist if it were live.
    m.finish(jobs[0], 0);
    m.finish(jobs[1], 0);
    m.finish(jobs[2], 0);
    m.submit(TestJob::new().user(7)).unwrap();
    assert_eq!(texts(&m.shadow("quota").unwrap()), [refusal, refusal]);
    m.submit(TestJob::new().user(7)).unwrap();
    m.submit(TestJob::new().user(7)).unwrap();
    assert_eq!(m.shadow("quota").unwrap().refuses, 3);
}

#[test]
fn what_only_the_live_plugin_refuses_is_shown_too() {
    let mut m = quotas(json!({"most": 1}), json!({"most": 5}));
    m.submit(TestJob::new().user(7)).unwrap();
    m.submit(TestJob::new().user(7)).unwrap_err();
    let report = m.shadow("quota").unwrap();
    assert_eq!((report.accepts, report.refuses), (1, 0));
    assert_eq!(texts(&report), ["verdict refuses: 1 jobs already | accepts"]);
}

#[test]
fn a_shadow_with_the_same_configuration_differs_in_nothing() {
    let mut m = quotas(json!({"most": 2, "priority": 5}), json!({"most": 2, "priority": 5}));
    let jobs: Vec<_> = (0..8).map(|i| m.submit(TestJob::new().user(7 + i % 3))).collect();
    m.urgency(*jobs[4].as_ref().unwrap(), 20).unwrap();
    m.finish(*jobs[0].as_ref().unwrap(), 0);
    let _ = m.submit(TestJob::new().user(7));
    m.call_service("quota.most", json!({})).unwrap();
    let report = m.shadow("quota").unwrap();
    assert_eq!((report.different, report.kinds.len(), texts(&report)), (0, 0, vec![]));
    assert!(report.compared > 20, "{report:?}");
}

#[test]
fn priorities_are_those_of_the_stack_with_the_shadow_in_its_place() {
    let mut m = quotas(json!({"most": 9, "priority": 5}), json!({"most": 9, "priority": 70}));
    m.scheduling(false).unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_priority(id, 5);
    let report = m.shadow("quota").unwrap();
    assert_eq!(texts(&report), ["priority 5 | 70"]);
    assert_eq!((report.worst[0].job, report.worst[0].shadow.as_str()), (Some(id), "70"));
    // A held job has the priority of its urgency, whatever plugins say.
    m.submit(TestJob::new().urgency(0)).unwrap();
    assert_eq!(m.shadow("quota").unwrap().kinds["priority"], 1);
}

/// Sets a priority after `quota`.
#[derive(Default)]
struct Late;

#[jobtap_plugin(name = "zz-late")]
impl Late {
    #[on("job.state.priority", "job.priority.get")]
    fn priority() -> Priority {
        Priority::new(1)
    }
}

#[test]
fn a_priority_that_a_later_plugin_overrides_makes_no_difference() {
    let config = json!({"plugins": {"quota": {"most": 9, "priority": 5}}});
    let mut m = TestManager::new().plugin::<Quota>().plugin::<Late>().config(config).start();
    m.scheduling(false).unwrap();
    let early = m.submit(TestJob::new()).unwrap();
    m.load_shadow("quota", json!({"most": 9, "priority": 70})).unwrap();
    m.submit(TestJob::new()).unwrap();
    m.urgency(early, 17).unwrap();
    assert_eq!(texts(&m.shadow("quota").unwrap()), [""; 0]);
}

#[test]
fn jobs_that_are_there_are_introduced_to_a_shadow() {
    let config = json!({"plugins": {"quota": {"most": 9, "priority": 5}}});
    let mut m = TestManager::new().plugin::<Quota>().config(config).start();
    m.scheduling(false).unwrap();
    let first = m.submit(TestJob::new().user(7)).unwrap();
    let before = m.events(first);
    m.load_shadow("quota", json!({"most": 1, "priority": 6})).unwrap();
    // The priorities of pending jobs are compared at once.
    assert_eq!(texts(&m.shadow("quota").unwrap()), ["priority 5 | 6"]);
    m.submit(TestJob::new().user(7)).unwrap();
    assert_eq!(m.shadow("quota").unwrap().refuses, 1);
    assert_eq!(m.events(first), before);
}

#[test]
fn services_are_shown_to_a_shadow_and_answered_by_the_live_plugin() {
    let mut m = quotas(json!({"most": 9}), json!({"most": 2}));
    assert_eq!(m.call_service("quota.most", json!({})).unwrap(), json!(9));
    let report = m.shadow("quota").unwrap();
    assert_eq!(texts(&report), ["reply 9 | 2"]);
    assert_eq!(
        (report.differences[0].topic.as_str(), report.differences[0].job),
        ("service most", None)
    );
}

#[test]
fn a_shadow_becomes_live_and_the_way_back() {
    let mut m = quotas(json!({"most": 1}), json!({"most": 2}));
    m.submit(TestJob::new().user(7)).unwrap();
    m.submit(TestJob::new().user(7)).unwrap_err();
    assert_eq!(m.promote("quota"), Ok(true));
    assert!(m.shadow("quota").is_none());
    // The promoted shadow has counted the existing job, and each job is decided by one of the two.
    m.submit(TestJob::new().user(7)).unwrap();
    m.submit(TestJob::new().user(7)).unwrap_err();
    assert_eq!(m.call_service("quota.most", json!({})).unwrap(), json!(2));
    assert_eq!(m.demote("quota"), Ok(true));
    assert_eq!(m.call_service("quota.most", json!({})).unwrap(), json!(1));
    m.submit(TestJob::new().user(8)).unwrap();
    m.submit(TestJob::new().user(8)).unwrap_err();
    assert_eq!(m.shadow("quota").unwrap().accepts, 1);
    // Promoted once more, the shadow still has its own configuration.
    assert_eq!(m.promote("quota"), Ok(true));
    assert_eq!(m.call_service("quota.most", json!({})).unwrap(), json!(2));
    // After a reload there is nothing to go back to.
    m.reload_plugin("quota", json!({"most": 3})).unwrap();
    assert_eq!(m.demote("quota"), Ok(false));
    m.call_service("quota.most", json!({})).unwrap_err();
    assert!(!m.shadow("quota").unwrap().live);
    for _ in 0..5 {
        m.submit(TestJob::new().user(9)).unwrap();
    }
    assert_eq!(m.shadow("quota").unwrap().refuses, 2);
}

#[test]
fn a_promotion_that_is_refused_changes_nothing() {
    let mut m = quotas(json!({"most": 1}), json!({"most": 2, "priority": 9}));
    // The shadow's own settings take precedence over the table, but the table's unknown key remains.
    let config = json!({"plugins": {"quota": {"most": 1, "unknown": 1}}});
    m.configure(config).unwrap();
    let error = m.promote("quota").unwrap_err().text();
    assert!(error.contains("unknown"), "{error}");
    assert_eq!(m.call_service("quota.most", json!({})).unwrap(), json!(1));
    assert!(m.shadow("quota").is_some());
    m.load_shadow("quota", json!({"most": 3})).unwrap_err();
    assert!(m.demote("quota").unwrap_err().text().contains("has a shadow already"));
}

#[test]
fn errors_name_what_is_missing() {
    let mut m = quotas(json!({"most": 1}), json!({"most": 2}));
    let again = m.load_shadow("quota", json!({"most": 2})).unwrap_err();
    assert_eq!(again, "quota already loaded as a shadow; remove that one first");
    assert!(m.load_shadow("qouta", json!({})).unwrap_err().text().ends_with("did you mean quota?"));
    assert!(m.load_shadow("quota", json!(3)).unwrap_err().text().contains("must be a JSON object"));
    m.remove_shadow("quota").unwrap();
    assert_eq!(m.remove_shadow("quota").unwrap_err(), "quota is live and has no shadow");
    assert!(m.load_shadow("quota", json!({"most": "x"})).is_err());
    assert!(m.shadow("quota").is_none());
    m.load_shadow("quota", json!({"most": 2})).unwrap();
    m.remove_plugin("quota").unwrap();
    assert!(m.remove_plugin("quota").unwrap_err().text().contains("it is a shadow"));
    assert!(m.demote("quota").unwrap_err().text().contains("is a shadow already"));
}

#[test]
fn a_shadow_does_not_survive_a_restart() {
    let mut m = quotas(json!({"most": 1}), json!({"most": 2}));
    m.submit(TestJob::new()).unwrap();
    m.crash_and_restart();
    assert!(m.shadow("quota").is_none());
}

/// Asks for everything that a plugin can ask for.
#[derive(Default)]
struct Greedy {
    prologs: Vec<Token>,
    seen: u64,
}

#[jobtap_plugin(name = "greedy", load = "by-name", data = u64)]
impl Greedy {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        cx.jobspec_update(path!("attributes.system.duration"), 77.0)?;
        assert_eq!(job.jobspec().duration(), 77.0);
        Ok(())
    }

    #[on("job.new")]
    fn new_job(
        &mut self,
        job: &Job,
        seen: Data<'_, u64>,
        cx: Cx<'_, JobNew>,
    ) -> Result<(), HandlerError> {
        assert_eq!(job.jobspec().duration(), 77.0);
        self.seen += 1;
        cx.subscribe(job)?;
        seen.set(&self.seen)?;
        cx.log(Level::Info, "seen");
        Ok(())
    }

    #[on("job.state.depend")]
    fn depend(
        &self,
        job: &Job,
        cx: Cx<'_, JobStateDepend>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        cx.dependency_add("greedy")?;
        cx.dependency_add("for-ever")?;
        assert!(job.dependencies().any(|open| open == "greedy"));
        let id = job.id();
        remote.at(cx.now() + 1.0, move |plugin, cx| {
            plugin.seen += 100;
            // A shadow doesn't hold the job, so it may have ended.
            if let Ok(job) = cx.active_job(id) {
                assert_eq!(job.jobspec().duration(), 77.0);
                cx.post_event(job, event_name!("greedy-later"), json!({})).unwrap();
            }
        });
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, seen: Data<'_, u64>) -> Priority {
        assert_eq!(seen.get().unwrap(), self.seen);
        Priority::HELD
    }

    #[on("job.state.run")]
    fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        self.prologs.push(cx.prolog_start("never")?);
        cx.memo(job, "greedy", "yes")?;
        cx.raise(job, Exception::new(severity!(3), "greedy", "one more"))?;
        cx.fail("greedy", "ends it")?;
        Ok(())
    }

    #[on("job.event.alloc")]
    fn event(&self, job: &Job, cx: Cx<'_, JobEventAlloc>) -> Result<(), HandlerError> {
        cx.post_event(job, event_name!("greedy-saw"), json!({}))?;
        Ok(())
    }
}

#[test]
fn nothing_of_a_shadow_reaches_the_jobs() {
    let run = |with_shadow: bool| {
        let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Greedy>().start();
        if with_shadow {
            m.load_shadow("greedy", json!({})).unwrap();
        }
        let first = m.submit(TestJob::new().duration(60.0)).unwrap();
        m.advance(5.0);
        m.finish(first, 0);
        let second = m.submit(TestJob::new()).unwrap();
        m.cancel(second).unwrap();
        m.advance(5.0);
        let logs: Vec<_> = [first, second].iter().map(|id| m.eventlog(*id)).collect();
        let listed: Vec<_> = [first, second].iter().map(|id| m.listed(*id)).collect();
        (logs, listed, m)
    };
    let (logs, listed, _) = run(false);
    let (shadowed_logs, shadowed_list, m) = run(true);
    assert_eq!((logs, listed), (shadowed_logs, shadowed_list));
    let report = m.shadow("greedy").unwrap();
    assert_eq!(
        (report.stopped.clone(), report.panics, report.refuses),
        (None, 0, 0),
        "{report:#?}"
    );
    let found = texts(&report);
    for expected in [
        "jobspec - | attributes.system.duration = 77.0",
        "dependency - | adds greedy, adds for-ever",
        "event - | greedy-saw {}",
        "event - | greedy-later {}",
        "priority 16 | 0",
        "memo - | {\"greedy\":\"yes\"}",
        "prolog - | starts never",
    ] {
        assert!(found.iter().any(|text| text == expected), "{expected}: {found:#?}");
    }
    m.assert_logged("greedy (shadow): seen");
}

/// Panics or takes long when the job's name says so.
#[derive(Default)]
struct Fragile;

static COARSE: std::sync::LazyLock<Arc<AtomicU64>> = std::sync::LazyLock::new(Arc::default);

#[jobtap_plugin(name = "fragile", load = "by-name")]
impl Fragile {
    #[on("job.validate")]
    fn check(&self, job: &Job) {
        match job.jobspec().name() {
            Some("panic") => panic!("fragile"),
            Some("slow") => {
                COARSE.fetch_add(400, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

#[test]
fn the_panics_of_a_shadow_stop_the_shadow() {
    let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Fragile>().start();
    m.load_shadow("fragile", json!({})).unwrap();
    for _ in 0..5 {
        let id = m.submit(TestJob::new().name("panic")).unwrap();
        m.cancel(id).unwrap();
    }
    let report = m.shadow("fragile").unwrap();
    assert_eq!((report.panics, report.refuses), (3, 3));
    assert_eq!(report.stopped.as_deref(), Some("it panicked 3 times within 60 s"));
    assert_eq!(report.differences[0].shadow, "refuses: panicked: fragile");
    let error = m.promote("fragile").unwrap_err().text();
    assert!(error.contains("was stopped: it panicked"), "{error}");
    m.submit(TestJob::new()).unwrap();
}

/// Panics if its configuration says so.
#[derive(Deserialize)]
struct Brittle {
    breaks: bool,
}

#[jobtap_plugin(name = "brittle")]
impl Brittle {
    #[init]
    fn new(conf: Conf<Brittle>) -> Self {
        conf.into_inner()
    }

    #[on("job.validate")]
    fn check(&self, job: &Job) -> Result<(), Reject> {
        assert!(!self.breaks, "brittle");
        Reject::when(job.jobspec().name() == Some("bad"), "a bad job")
    }
}

#[test]
fn the_panics_of_a_shadow_are_not_those_of_the_live_plugin() {
    let config = json!({"plugins": {"brittle": {"breaks": false}}});
    let m = TestManager::new().plugin::<ByUrgency>().plugin::<Brittle>().config(config);
    let mut m = m.start();
    m.load_shadow("brittle", json!({"breaks": true})).unwrap();
    for _ in 0..5 {
        // A faulted plugin would refuse.
        m.submit(TestJob::new()).unwrap();
    }
    let report = m.shadow("brittle").unwrap();
    assert_eq!((report.panics, report.refuses), (3, 3));
    assert!(report.stopped.is_some());
    assert_eq!(m.submit(TestJob::new().name("bad")).unwrap_err(), "a bad job");
}

#[test]
fn a_shadow_that_takes_too_much_time_is_stopped() {
    let ticks = Ticks::new(Arc::clone(&COARSE), || 0);
    let m = TestManager::new().plugin::<ByUrgency>().linked::<Fragile>().ticks(ticks);
    let mut m = m.start();
    m.load_shadow("fragile", json!({})).unwrap();
    for _ in 0..5 {
        m.submit(TestJob::new().name("slow")).unwrap();
    }
    let report = m.shadow("fragile").unwrap();
    let stopped = "it took more than 10 % of the time and 1 s beyond that";
    assert_eq!(report.stopped.as_deref(), Some(stopped));
    assert_eq!((report.calls, report.seconds), (3, 1.2));
}

/// Decides asynchronously.
#[derive(Default)]
struct Slow;

#[jobtap_plugin(name = "slow", load = "by-name")]
impl Slow {
    #[on("job.validate")]
    async fn check(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        let _ = remote.sleep(1.0).await;
        Reject::when(job.userid == Uid(7), "no")
    }

    #[on("job.state.run")]
    async fn prolog(remote: Remote<Self>) -> Result<(), PrologFailed> {
        let _ = remote.run_process(Process::new("never")).await;
        Ok(())
    }
}

#[test]
fn asynchronous_work_of_a_shadow_is_recorded_and_not_run() {
    let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Slow>().start();
    m.load_shadow("slow", json!({})).unwrap();
    let id = m.submit(TestJob::new().user(7)).unwrap();
    m.advance(10.0);
    m.assert_state(id, State::Run);
    let report = m.shadow("slow").unwrap();
    assert_eq!((report.undecided, report.refuses), (1, 0));
    let found = texts(&report);
    assert!(found.contains(&"outside - | the future of slow.check".to_owned()), "{found:?}");
    assert!(found.contains(&"prolog - | starts slow.prolog".to_owned()), "{found:?}");
}

/// Holds jobs with a dependency of the scheme `gate` until its service is called.
#[derive(Default)]
struct Gate;

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("job.dependency.gate")]
    fn hold(&self, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add("gate")?;
        Ok(())
    }

    #[service("open")]
    fn open(&self, cx: Cx<'_, Service>) -> Result<usize, ServiceError> {
        let mut opened = 0;
        for job in cx.active_jobs().filter_map(|job| job.active()) {
            if let Some(gate) = job.dependency("gate") {
                cx.dependency_remove(gate);
                opened += 1;
            }
        }
        Ok(opened)
    }
}

#[test]
fn a_shadow_removes_the_dependencies_that_it_has_added() {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Gate>().start();
    let before = m.submit(TestJob::new().dependency("gate:x")).unwrap();
    m.load_shadow("gate", json!({})).unwrap();
    let id = m.submit(TestJob::new().dependency("gate:x")).unwrap();
    m.assert_state(id, State::Depend);
    assert_eq!(m.call_service("gate.open", json!({})).unwrap(), json!(2));
    m.assert_state(before, State::Run);
    let report = m.shadow("gate").unwrap();
    assert_eq!((report.different, texts(&report)), (0, vec![]));
}

/// Adds a dependency, removes it, and adds it again, which is refused.
#[derive(Default)]
struct Again;

#[jobtap_plugin(name = "again")]
impl Again {
    #[on("job.dependency.again")]
    fn hold(&self, job: &Job, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add("again")?;
        if let Some(added) = job.dependency("again") {
            cx.dependency_remove(added);
        }
        cx.dependency_add("again")?;
        Ok(())
    }
}

#[test]
fn a_shadow_can_not_add_a_dependency_again_that_it_has_removed() {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Again>().start();
    m.load_shadow("again", json!({})).unwrap();
    let refusal = m.submit(TestJob::new().dependency("again:x")).unwrap_err();
    assert!(refusal.to_string().contains("again"), "{refusal}");
    let report = m.shadow("again").unwrap();
    assert_eq!((report.refuses, report.different, texts(&report)), (0, 0, vec![]));
}

/// Supports a dependency scheme that no other plugin supports.
#[derive(Default)]
struct Scheme;

#[jobtap_plugin(name = "scheme", load = "by-name")]
impl Scheme {
    #[on("job.dependency.moon")]
    fn moon(&self, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add("moon")?;
        Ok(())
    }
}

#[test]
fn a_dependency_that_only_the_shadow_supports_is_shown() {
    let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Scheme>().start();
    m.load_shadow("scheme", json!({})).unwrap();
    m.submit(TestJob::new().dependency("moon:full")).unwrap_err();
    let report = m.shadow("scheme").unwrap();
    assert_eq!(report.accepts, 1);
    assert!(texts(&report)[0].starts_with("verdict refuses: dependency scheme"), "{report:?}");
}

/// A question to other plugins.
#[topic("shadow.question", answer = u64)]
struct Question;

/// Answers questions, asks one itself, and asks for new priorities after a while.
#[derive(Default)]
struct Curious {
    priority: u32,
    answered: u64,
    heard: u64,
}

#[jobtap_plugin(name = "curious", load = "by-name")]
impl Curious {
    #[on("conf.update")]
    fn configure(&mut self, conf: InstanceConf<Value>) -> Result<(), ConfError> {
        match conf.get("refused") {
            Some(_) => Err(ConfError::new("refused by curious")),
            None => Ok(()),
        }
    }

    #[on(Question)]
    fn answer(&mut self) -> u64 {
        self.answered += 1;
        self.answered
    }

    #[on("job.new")]
    fn ask(&mut self, cx: Cx<'_, JobNew>, remote: Remote<Self>) -> Result<(), HandlerError> {
        self.heard += cx.call(&Question)?.len() as u64;
        remote.at(cx.now() + 60.0, |plugin, cx| {
            plugin.priority = 7;
            cx.reprioritize_all();
        });
        Ok(())
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self) -> Priority {
        match self.priority {
            0 => Priority::UNCHANGED,
            priority => Priority::new(priority),
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&json!({"answered": self.answered, "heard": self.heard}))
    }
}

/// Answers questions too.
#[derive(Default)]
struct Other(u64);

#[jobtap_plugin(name = "other")]
impl Other {
    #[on(Question)]
    fn answer(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&json!({"answered": self.0}))
    }
}

fn curious() -> TestManager {
    let m = TestManager::new().plugin::<ByUrgency>().plugin::<Other>().linked::<Curious>();
    let mut m = m.start();
    m.load_shadow("curious", json!({})).unwrap();
    m
}

#[test]
fn a_shadow_asks_no_other_plugin() {
    let mut m = curious();
    m.submit(TestJob::new()).unwrap();
    assert_eq!(m.query_plugin("other").unwrap()["answered"], 0);
    let own = m.query_shadow("curious").unwrap();
    assert_eq!(
        (&own["heard"], &own["answered"], &own["shadow"]),
        (&json!(0), &json!(0), &json!(true))
    );
    let report = m.shadow("curious").unwrap();
    assert_eq!((report.unseen, report.errors), (vec!["shadow.question".to_owned()], 0));
}

#[test]
fn new_priorities_of_a_shadow_alone_are_compared_when_it_asks_for_them() {
    let mut m = curious();
    m.scheduling(false).unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    assert_eq!(texts(&m.shadow("curious").unwrap()), [""; 0]);
    m.advance(61.0);
    assert_eq!(texts(&m.shadow("curious").unwrap()), ["priority 16 | 7"]);
    m.assert_priority(id, 16);
    m.assert_events(id, "submit validate depend priority");
}

#[test]
fn a_configuration_that_only_the_shadow_refuses_is_in_force() {
    let mut m = curious();
    m.configure(json!({"refused": true})).unwrap();
    m.assert_logged("curious (shadow): refuses the new configuration: refused by curious");
    m.load_plugin("curious", json!({})).unwrap_err();
    assert_eq!(m.promote("curious").unwrap_err(), "refused by curious");
}
