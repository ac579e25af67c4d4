//! Plugins in a job_submit plugin: the adapter with a double of slurmctld.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, Release, SlurmError, errno};
use jobtap_slurm::testing::TestSlurm;

/// Handles a request according to its job name.
#[derive(Default)]
struct Site {
    seen: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Most {
    minutes: u32,
}

impl Default for Most {
    fn default() -> Self {
        Self { minutes: 1440 }
    }
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("slurm.job_submit")]
    fn submit(
        &mut self,
        mut desc: Descriptor<'_>,
        user: SubmitUid,
        partitions: Partitions<'_>,
        cx: Cx<'_, SlurmJobSubmit>,
    ) -> Result<(), SlurmError> {
        self.seen += 1;
        match desc.name.as_deref() {
            Some("panic") => {
                cx.user_message("not seen");
                panic!("asked for it");
            }
            Some("long") => return Err(errno::ESLURM_INVALID_TIME_LIMIT.with("a day at most")),
            Some("talk") => {
                cx.user_message("one\ntwo");
                cx.user_message("three");
            }
            Some("hang") => std::thread::sleep(Duration::from_millis(400)),
            Some("seen") => desc.comment = Some(self.seen.to_string()),
            Some("who") => {
                let names = partitions.iter().filter_map(|partition| partition.name.clone());
                let names: Vec<String> = names.collect();
                let user_name = desc.user_name.clone().unwrap_or_default();
                desc.comment = Some(format!("{} {user_name} {}", user.0, names.join("+")));
            }
            _ => {}
        }
        Ok(())
    }

    #[on("slurm.job_modify")]
    fn modify(
        &self,
        mut desc: Descriptor<'_>,
        job: &Job,
        record: &JobRecord,
    ) -> Result<(), SlurmError> {
        if desc.time_limit.is_some_and(|minutes| minutes > 1440) {
            return Err(errno::ESLURM_INVALID_TIME_LIMIT.with("a day at most"));
        }
        let (id, state, queue) = (job.id().as_u64(), job.state(), job.jobspec().queue());
        let account = record.account.as_deref().unwrap_or_default();
        let user = record.user_name.as_deref().unwrap_or_default();
        desc.comment = Some(format!("{id} {state} {} {account} {user}", queue.unwrap_or_default()));
        Ok(())
    }
}

#[derive(Default)]
struct Second;

#[jobtap_plugin(name = "second")]
impl Second {
    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>) {
        let before = desc.comment.take().unwrap_or_default();
        desc.comment = Some(format!("{before}, second"));
    }
}

#[derive(Default)]
struct Later;

#[jobtap_plugin(name = "later")]
impl Later {
    #[on("slurm.job_submit", timeout = "300ms")]
    async fn submit(
        mut desc: JobDescriptor,
        messages: UserMessages,
        remote: Remote<Self>,
    ) -> Result<JobDescriptor, SlurmError> {
        match desc.name.as_deref() {
            Some("slow") => remote.sleep(10.0).await.map_err(|_| errno::SLURM_ERROR)?,
            Some("panic") => panic!("asked for it"),
            Some("refuse") => return Err(errno::ESLURM_ACCESS_DENIED),
            _ => remote.sleep(0.01).await.map_err(|_| errno::SLURM_ERROR)?,
        }
        let echo = remote.run_process(Process::new("echo").arg("gold")).await;
        let echo = echo.map_err(|error| errno::SLURM_ERROR.with(error.to_string()))?;
        desc.account = Some(String::from_utf8_lossy(&echo.stdout).trim().to_owned());
        messages.send("charged to gold");
        Ok(desc)
    }
}

#[derive(Default)]
struct Checks;

#[jobtap_plugin(name = "checks")]
impl Checks {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        match job.jobspec().queue() {
            Some("closed") => Err(Reject::new(format!("queue closed to user {}", job.userid()))),
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
struct ChecksLater;

#[jobtap_plugin(name = "checks-later")]
impl ChecksLater {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        remote.sleep(0.01).await?;
        match job.jobspec.duration() > 3600.0 {
            true => Err(Reject::new("an hour at most")),
            false => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Limited {
    most: Most,
}

#[jobtap_plugin(name = "limited")]
impl Limited {
    #[init]
    fn new(most: Conf<Most>) -> Self {
        Self { most: most.into_inner() }
    }

    #[on("conf.update")]
    fn update(&mut self, most: Conf<Most>) -> Result<(), ConfError> {
        if most.minutes == 0 {
            return Err(ConfError::new("minutes: must not be 0"));
        }
        self.most = most.into_inner();
        Ok(())
    }

    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>) {
        desc.time_limit = Some(self.most.minutes);
    }
}

#[derive(Default)]
struct NeedsMore;

#[jobtap_plugin(name = "needs-more")]
impl NeedsMore {
    #[on("job.state.run")]
    fn run(&self) {}
}

fn named(name: &str) -> JobDescriptor {
    JobDescriptor { name: Some(name.to_owned()), ..JobDescriptor::default() }
}

#[test]
fn what_a_plugin_does_not_change_is_not_written() {
    let slurm = TestSlurm::new().plugin::<Site>().start().unwrap();
    let submitted = slurm.submit(named("plain"));
    assert_eq!((submitted.decision.code, submitted.written), (0, vec![]));
    let submitted = slurm.submit(named("seen"));
    assert_eq!((submitted.decision.code, submitted.written), (0, vec!["comment"]));
    assert_eq!(submitted.descriptor.comment.as_deref(), Some("2"));
}

#[test]
fn a_refusal_has_its_code_and_its_text() {
    let slurm = TestSlurm::new().plugin::<Site>().plugin::<Second>().start().unwrap();
    let refused = slurm.submit(named("long"));
    assert_eq!(refused.decision.code, errno::ESLURM_INVALID_TIME_LIMIT.code());
    assert_eq!(refused.decision.message.as_deref(), Some("a day at most"));
    assert_eq!(refused.written, [""; 0]);
}

#[test]
fn messages_come_in_their_order() {
    let slurm = TestSlurm::new().plugin::<Site>().start().unwrap();
    let submitted = slurm.submit(named("talk"));
    assert_eq!(submitted.decision.message.as_deref(), Some("one\ntwo\nthree"));
}

#[test]
fn the_next_plugin_sees_what_the_first_has_changed() {
    let slurm = TestSlurm::new().plugin::<Site>().plugin::<Second>().start().unwrap();
    let submitted = slurm.submit(named("seen"));
    assert_eq!(submitted.descriptor.comment.as_deref(), Some("1, second"));
}

#[test]
fn a_panic_refuses_the_request_and_no_other() {
    let slurm = TestSlurm::new().plugin::<Site>().start().unwrap();
    for round in 1..=20 {
        let refused = slurm.submit(named("panic"));
        assert_eq!(refused.decision.code, -1);
        let text = "plugin site failed; the request is refused, please report it";
        assert_eq!(refused.decision.message.as_deref(), Some(text));
        let submitted = slurm.submit(named("seen"));
        assert_eq!(submitted.descriptor.comment, Some((2 * round).to_string()));
    }
    assert_eq!(slurm.log(Level::Error).len(), 20);
    assert_eq!(
        slurm.log(Level::Error)[0],
        "jobtap: site: slurm.job_submit: panicked: asked for it"
    );
}

#[test]
fn user_and_partitions_are_those_that_slurmctld_knows() {
    let partition = |name: &str| Partition { name: Some(name.into()), ..Partition::default() };
    let slurm = TestSlurm::new()
        .plugin::<Site>()
        .partition(partition("batch"))
        .partition(partition("gpu"))
        .start()
        .unwrap();
    let submitted = slurm.submit_as(7, named("who"));
    assert_eq!(submitted.descriptor.comment.as_deref(), Some("7 user7 batch+gpu"));
    assert_eq!(submitted.written, ["comment"]);
}

#[test]
fn an_asynchronous_handler_is_waited_for() {
    let slurm = TestSlurm::new().plugin::<Later>().plugin::<Second>().start().unwrap();
    let submitted = slurm.submit(named("plain"));
    assert_eq!(submitted.decision.code, 0, "{submitted:?} {:?}", slurm.log(Level::Error));
    assert_eq!(submitted.decision.message.as_deref(), Some("charged to gold"));
    assert_eq!(submitted.descriptor.account.as_deref(), Some("gold"));
    assert_eq!(submitted.descriptor.comment.as_deref(), Some(", second"));
    assert_eq!(slurm.submit(named("refuse")).decision.code, 2002);
}

#[test]
fn an_asynchronous_handler_that_fails_refuses() {
    let slurm = TestSlurm::new().plugin::<Later>().start().unwrap();
    let text = |name| slurm.submit(named(name)).decision.message.unwrap();
    assert_eq!(text("slow"), "later.submit: no end after 0.3 s");
    assert_eq!(text("panic"), "later.submit panicked: asked for it");
    assert_eq!(slurm.submit(named("plain")).decision.code, 0);
}

#[test]
fn a_handler_that_hangs_holds_up_one_request() {
    let config = "[slurm]\nrequest-timeout = \"100ms\"";
    let slurm = TestSlurm::new().plugin::<Site>().config(config).start().unwrap();
    let begin = Instant::now();
    let refused = slurm.submit(named("hang"));
    assert!(begin.elapsed() < Duration::from_millis(350), "{:?}", begin.elapsed());
    let text = "no answer of the site's plugins within 100ms; please report it";
    assert_eq!((refused.decision.code, refused.decision.message.as_deref()), (-1, Some(text)));
    std::thread::sleep(Duration::from_millis(400));
    let submitted = slurm.submit(named("seen"));
    assert_eq!(submitted.descriptor.comment.as_deref(), Some("2"));
}

#[test]
fn a_change_of_a_job_comes_with_the_job() {
    let slurm = TestSlurm::new().plugin::<Site>().start().unwrap();
    let job = JobRecord {
        job_id: 12,
        job_state: 1,
        user_id: 5,
        account: Some("gold".into()),
        partition: Some("batch".into()),
        ..JobRecord::default()
    };
    let changed = slurm.modify(job.clone(), JobDescriptor::default());
    assert_eq!(changed.descriptor.comment.as_deref(), Some("12 RUN batch gold user5"));
    let longer = JobDescriptor { time_limit: Some(9999), ..JobDescriptor::default() };
    let refused = slurm.modify(job.clone(), longer.clone());
    assert_eq!(refused.decision.code, errno::ESLURM_INVALID_TIME_LIMIT.code());
    assert_eq!(refused.decision.message.as_deref(), Some("a day at most"));
    assert_eq!(slurm.log(Level::Info), Vec::<String>::new());
    // slurmctld 22.05 can't pass a message to the user who modifies a job, so the message is in its log.
    let slurm = TestSlurm::new().plugin::<Site>().release(Release::V22_05).start().unwrap();
    let refused = slurm.modify(job, longer);
    assert_eq!(refused.decision.code, errno::ESLURM_INVALID_TIME_LIMIT.code());
    assert_eq!(refused.decision.message, None);
    assert_eq!(slurm.log(Level::Info), ["jobtap: job 12: change by user 1000: a day at most"]);
}

#[test]
fn job_validate_sees_the_described_job() {
    let slurm = TestSlurm::new().plugin::<Checks>().plugin::<ChecksLater>().start().unwrap();
    let to = |partition: &str, time_limit| JobDescriptor {
        partition: Some(partition.into()),
        time_limit: Some(time_limit),
        ..JobDescriptor::default()
    };
    assert_eq!(slurm.submit(to("batch", 60)).decision.code, 0);
    let text = |desc| slurm.submit(desc).decision.message.unwrap();
    assert_eq!(text(to("closed", 60)), "queue closed to user 1000");
    assert_eq!(text(to("batch", 61)), "an hour at most");
}

#[test]
fn job_validate_sees_a_job_as_a_change_would_leave_it() {
    let slurm = TestSlurm::new().plugin::<Checks>().plugin::<ChecksLater>().start().unwrap();
    let job = JobRecord {
        job_id: 12,
        partition: Some("batch".into()),
        time_limit: Some(30),
        min_cpus: 1,
        ..JobRecord::default()
    };
    let change = |change: JobDescriptor| {
        let decision = slurm.modify(job.clone(), change).decision;
        (decision.code, decision.message.unwrap_or_default())
    };
    let name = Some("other".to_owned());
    assert_eq!(change(JobDescriptor { name, ..JobDescriptor::default() }).0, 0);
    let longer = JobDescriptor { time_limit: Some(61), ..JobDescriptor::default() };
    assert_eq!(change(longer), (-1, "an hour at most".to_owned()));
    let closed = Some("closed".to_owned());
    let (code, text) = change(JobDescriptor { partition: closed, ..JobDescriptor::default() });
    assert!(code == -1 && text.contains("queue closed to user"), "{text}");
    // A job that breaks a newer rule can still be held. `scontrol` leaves some fields of its request at 0.
    let old = JobRecord { partition: Some("closed".into()), ..job.clone() };
    let hold = JobDescriptor {
        priority: Some(0),
        oom_kill_step: Some(0),
        resv_port_cnt: Some(0),
        ..JobDescriptor::default()
    };
    let held = slurm.modify(old, hold);
    assert_eq!(held.decision.code, 0);
}

#[test]
fn the_configuration_is_followed() {
    let slurm = TestSlurm::new()
        .plugin::<Limited>()
        .config("[plugins.limited]\nminutes = 5")
        .start()
        .unwrap();
    let minutes = || slurm.submit(named("plain")).descriptor.time_limit.unwrap();
    assert_eq!(minutes(), 5);
    slurm.reconfigure("[plugins.limited]\nminutes = 6");
    assert_eq!(minutes(), 6);
    slurm.reconfigure("[plugins.limited]\nminuts = 7");
    assert_eq!(minutes(), 6);
    slurm.reconfigure("[plugins.limited]\nminutes = 0");
    assert_eq!(minutes(), 6);
    slurm.reconfigure("[plugins");
    assert_eq!(minutes(), 6);
    let errors = slurm.log(Level::Error);
    let stays = "; the configuration stays as it was";
    assert!(errors.iter().all(|line| line.ends_with(stays)), "{errors:?}");
    let unknown =
        "jobtap: limited: [plugins.limited]: unknown key \"minuts\"; did you mean \"minutes\"?";
    assert_eq!(errors[0], format!("{unknown}{stays}"));
    assert_eq!(errors[1], format!("jobtap: limited: minutes: must not be 0{stays}"));
    assert_eq!(errors.len(), 3);
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Agrees {
    no: bool,
}

#[derive(Debug, Default)]
struct Picky;

#[jobtap_plugin(name = "picky")]
impl Picky {
    #[on("conf.update")]
    fn update(&self, agrees: Conf<Agrees>) -> Result<(), ConfError> {
        match agrees.no {
            true => Err(ConfError::new("no")),
            false => Ok(()),
        }
    }
}

#[test]
fn a_configuration_that_one_plugin_refuses_reaches_no_other() {
    let slurm = TestSlurm::new()
        .plugin::<Limited>()
        .plugin::<Picky>()
        .config("[plugins.limited]\nminutes = 5")
        .start()
        .unwrap();
    slurm.reconfigure("[plugins.limited]\nminutes = 6\n[plugins.picky]\nno = true");
    assert_eq!(slurm.submit(named("plain")).descriptor.time_limit, Some(5));
}

#[test]
fn a_refused_configuration_fails_the_start() {
    let start = |config: &str| {
        TestSlurm::new().plugin::<Limited>().config(config).start().unwrap_err().to_string()
    };
    let text = "plugin limited can't be loaded: [plugins.limited]: unknown key \"minuts\"; did you \
                mean \"minutes\"?";
    assert_eq!(start("[plugins.limited]\nminuts = 7"), text);
    let text = "plugin limited can't be loaded: minutes: must not be 0";
    assert_eq!(start("[plugins.limited]\nminutes = 0"), text);
    let error = TestSlurm::new().plugin::<Site>().config("[plugins.site]\na = 1").start();
    assert_eq!(
        error.unwrap_err().to_string(),
        "plugin site can't be loaded: [plugins.site]: unknown key \"a\": this plugin takes no \
         configuration"
    );
}

#[test]
fn a_plugin_that_needs_more_is_refused() {
    let error = TestSlurm::new().plugin::<NeedsMore>().start().unwrap_err().to_string();
    assert!(error.contains("job_submit doesn't serve job.state.run (method run): "), "{error}");
    let error = TestSlurm::new().plugin::<Site>().prep().start().unwrap_err().to_string();
    assert!(error.contains("PrEp doesn't serve slurm.job_submit (method submit): "), "{error}");
}

/// Changes the jobspec, and sets priorities.
#[derive(Default)]
struct Orders;

#[jobtap_plugin(name = "orders")]
impl Orders {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        if job.jobspec().name() == Some("needs") {
            cx.dependency_add("license")?;
        }
        cx.jobspec_update(path!("attributes.system.duration"), 600.0)?;
        // The callback sees its own update.
        assert_eq!(job.jobspec().duration(), 600.0);
        match job.jobspec().name() {
            Some("refused") => Err(Reject::new("no")),
            _ => Ok(()),
        }
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        match job.jobspec().name() {
            Some("first") => Priority::new(u32::MAX),
            Some("unknown") => Priority::UNAVAILABLE,
            // The jobspec has the update of `validate`.
            _ => Priority::new(job.jobspec().duration() as u32),
        }
    }
}

#[derive(Default)]
struct OrdersLater;

#[jobtap_plugin(name = "orders-later")]
impl OrdersLater {
    #[on("job.state.priority")]
    async fn priority(job: JobInfo, remote: Remote<Self>) -> Result<Priority, HandlerError> {
        remote.sleep(0.01).await?;
        match job.jobspec.name() {
            Some("first") => Err(HandlerError::new("not known")),
            _ => Ok(Priority::new(7)),
        }
    }
}

#[test]
fn job_validate_changes_the_request() {
    let slurm = TestSlurm::new().plugin::<Orders>().start().unwrap();
    let submitted = slurm.submit(named("plain"));
    assert_eq!(submitted.decision.code, 0, "{submitted:?}");
    assert_eq!(submitted.written, ["priority", "time_limit"]);
    assert_eq!(
        (submitted.descriptor.time_limit, submitted.descriptor.priority),
        (Some(10), Some(600))
    );
    let refused = slurm.submit(named("refused"));
    assert_eq!(refused.decision.message.as_deref(), Some("no"));
    let refused = slurm.submit(named("needs")).decision.message.unwrap();
    assert!(refused.contains("dependency_add"), "{refused}");
}

#[test]
fn a_priority_becomes_that_of_the_request() {
    let slurm = TestSlurm::new().plugin::<Orders>().start().unwrap();
    let priority = |desc| slurm.submit(desc).descriptor.priority;
    assert_eq!(priority(named("first")), Some(u32::MAX - 2));
    assert_eq!(priority(named("unknown")), None);
    let held = JobDescriptor { priority: Some(0), ..named("plain") };
    assert_eq!(priority(held), Some(0));
    let slurm = TestSlurm::new().plugin::<OrdersLater>().start().unwrap();
    let priority = |desc| slurm.submit(desc).descriptor.priority;
    assert_eq!(priority(named("plain")), Some(7));
    assert_eq!(priority(named("first")), None);
}

#[derive(Default, Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Count(u32);

#[derive(Default)]
struct Counts;

#[jobtap_plugin(name = "counts", data = Count, instance_data = Count)]
impl Counts {
    #[on("job.validate")]
    fn validate(
        &self,
        data: Data<'_, Count>,
        all: InstanceData<'_, Count>,
        job: &Job,
    ) -> Result<(), Reject> {
        data.update(|count: &mut Count| count.0 += 1)?;
        all.update(|count: &mut Count| count.0 += 1)?;
        Err(Reject::new(format!("{} {} of {}", data.get()?.0, all.get()?.0, job.userid())))
    }
}

#[test]
fn data_lasts_as_long_as_what_it_is_about() {
    let slurm = TestSlurm::new().plugin::<Counts>().start().unwrap();
    let text = || slurm.submit(named("plain")).decision.message.unwrap();
    assert_eq!(text(), "1 1 of 1000");
    assert_eq!(text(), "1 2 of 1000");
}

#[derive(Default)]
struct Timers;

static FIRED: AtomicU32 = AtomicU32::new(0);

#[jobtap_plugin(name = "timers")]
impl Timers {
    #[on("slurm.job_submit")]
    fn submit(&self, remote: Remote<Self>, cx: Cx<'_, SlurmJobSubmit>) {
        remote.at(cx.now() + 0.05, |_, _| {
            FIRED.fetch_add(1, Ordering::SeqCst);
        });
    }
}

#[test]
fn timers_of_plugins_fire() {
    let slurm = TestSlurm::new().plugin::<Timers>().start().unwrap();
    let _ = slurm.submit(named("plain"));
    let until = Instant::now() + Duration::from_secs(20);
    while FIRED.load(Ordering::SeqCst) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(FIRED.load(Ordering::SeqCst), 1);
}
