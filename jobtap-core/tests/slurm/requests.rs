//! Requests that plugins see in Slurm's terms: `slurm.job_submit` before a job exists, `slurm.job_modify` before a job
//! is changed.

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, Partition, SlurmError, errno};
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;

fn with<P: Plugin>() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<P>().start()
}

const DURATION: &str = "attributes.system.duration";

mod users {
    use super::*;
    use jobtap_core::slurm::{NO_VAL, NO_VAL16};

    fn show(desc: &JobDescriptor) -> String {
        let name = desc.user_name.as_deref().unwrap_or("unknown");
        format!("{} is {name} of {}", desc.user_id, desc.group_id)
    }

    #[derive(Default)]
    struct Sync;

    #[jobtap_plugin(name = "sync")]
    impl Sync {
        #[on("slurm.job_submit")]
        fn submit(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) {
            cx.user_message(show(&desc));
        }

        #[on("slurm.job_modify")]
        fn modify(desc: Descriptor<'_>, user: SubmitUid, cx: Cx<'_, SlurmJobModify>) {
            assert_eq!(
                (desc.group_id, desc.contiguous, desc.mail_type),
                (NO_VAL, NO_VAL16, NO_VAL16)
            );
            let name = desc.user_name.as_deref().unwrap_or("unknown");
            cx.user_message(format!("{} changes a job of {} {name}", user.0, desc.user_id));
        }
    }

    #[derive(Default)]
    struct Async;

    #[jobtap_plugin(name = "async")]
    impl Async {
        #[on("slurm.job_submit")]
        async fn submit(
            desc: JobDescriptor,
            messages: UserMessages,
        ) -> Result<JobDescriptor, SlurmError> {
            messages.send(show(&desc));
            Ok(desc)
        }
    }

    #[test]
    fn all_handlers_of_a_submission_know_the_user() {
        let m = TestManager::new().plugin::<ByUrgency>().plugin::<Sync>().plugin::<Async>();
        let mut m = m.known_user(7, "ada", 100).start();
        m.submit(TestJob::new().user(7)).unwrap();
        assert_eq!(m.messages(), ["7 is ada of 100", "7 is ada of 100"]);
        m.submit(TestJob::new().user(8)).unwrap();
        assert_eq!(m.messages(), ["8 is unknown of 0", "8 is unknown of 0"]);
    }

    #[test]
    fn requests_of_a_user_are_asked_about_in_their_order() {
        use jobtap_core::engine::{
            Cred, Effect, Engine, HostCheck, Input, ReplyTo, Request, Requester, Setup, Submission,
        };
        use jobtap_core::host::{NoReturn, Registry, Ticks};
        use jobtap_core::jobspec::JobspecBuilder;
        use jobtap_core::resource::Idset;
        use std::sync::Arc;

        let setup = Setup {
            owner: TestJob::OWNER,
            resources: ResourceSet::single_host("host", Idset::from(0..=3)).unwrap(),
            config: json!({}),
            config_directory: None,
            registry: Registry::builder().plugins([Sync::DESCRIPTOR]).build().unwrap(),
            remote: Arc::new(NoReturn),
            ticks: Ticks::default(),
            host_check: HostCheck::default(),
        };
        let now = Timestamp::from_secs(1.7e9);
        let mut engine = Engine::new(now, setup).unwrap();
        engine.start(now);
        let user = Uid::new(7);
        let mut submit = |number| {
            let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
            let signed = String::new();
            let submission = Submission { jobspec, signed, urgency: 16, flags: 0, elements: None };
            let cred = Cred { userid: user, owner: false };
            let request = Request::Submit(Box::new(submission));
            engine.handle(now, Input::Request { reply: ReplyTo(number), cred, request }).after
        };
        // The user is looked up once, and nothing else happens meanwhile.
        assert!(matches!(submit(1)[..], [Effect::LookUp { user: asked }] if asked == user));
        assert!(submit(2).is_empty() && submit(3).is_empty());
        let requester = Requester::default();
        let effects = engine.handle(now, Input::Requester { user, requester });
        let replies = effects.after.iter().filter_map(|effect| match effect {
            Effect::Reply { to, result } => Some((to.0, result.is_ok())),
            _ => None,
        });
        assert_eq!(replies.collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
    }

    #[derive(Default)]
    struct Unprioritized;

    #[jobtap_plugin(name = "unprioritized")]
    impl Unprioritized {
        #[on("slurm.job_submit")]
        fn submit(mut desc: Descriptor<'_>) {
            desc.priority = match desc.priority {
                Some(7) => Some(1_000_000),
                _ => None,
            };
        }
    }

    #[test]
    fn a_job_without_a_priority_has_the_default_urgency() {
        let mut m = with::<Unprioritized>();
        let mut urgency = |asked| {
            let id = m.submit(TestJob::new().urgency(asked)).unwrap();
            m.job(id).urgency().value()
        };
        assert_eq!((urgency(0), urgency(20)), (16, 16));
        // A Slurm priority that is no urgency leaves the requested urgency as it is.
        assert_eq!(urgency(7), 7);
    }

    #[test]
    fn a_change_is_about_a_job_of_its_user() {
        let m = TestManager::new().plugin::<ByUrgency>().plugin::<Sync>();
        let mut m = m.known_user(7, "ada", 100).start();
        let id = m.submit(TestJob::new().user(7).urgency(0)).unwrap();
        m.messages();
        m.urgency(id, 5).unwrap();
        let owner = TestJob::OWNER;
        assert_eq!(m.messages(), [format!("{owner} changes a job of 7 ada")]);
        let _ = m.update(id, "attributes.system.bank", "b");
        assert_eq!(m.messages(), [format!("{owner} changes a job of 7 ada")]);
    }
}

mod submissions {
    use super::*;

    /// Appends its letter to the name, and says so. Refuses a name that ends with its letter.
    fn mark(
        letter: char,
        mut desc: Descriptor<'_>,
        cx: &Cx<'_, SlurmJobSubmit>,
    ) -> Result<(), SlurmError> {
        let name = desc.name.clone().unwrap_or_default();
        if name.ends_with(letter) {
            return Err(errno::ESLURM_ACCESS_DENIED.with(format!("{name} has {letter} already")));
        }
        cx.user_message(format!("{letter} saw {name:?}"));
        desc.name = Some(format!("{name}{letter}"));
        Ok(())
    }

    #[derive(Default)]
    struct A;

    #[jobtap_plugin(name = "a")]
    impl A {
        #[on("slurm.job_submit")]
        fn submit(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) -> Result<(), SlurmError> {
            mark('a', desc, &cx)
        }

        #[on("job.validate")]
        fn validate(job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            let name = job.jobspec().name().unwrap_or_default();
            cx.log(Level::Info, format!("validates {name}"));
            Reject::when(name.starts_with("invalid"), "the name is invalid")
        }
    }

    #[derive(Default)]
    struct B;

    #[jobtap_plugin(name = "b")]
    impl B {
        #[on("slurm.job_submit")]
        fn submit(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) -> Result<(), SlurmError> {
            mark('b', desc, &cx)
        }
    }

    fn both() -> TestManager {
        TestManager::new().plugin::<ByUrgency>().plugin::<A>().plugin::<B>().start()
    }

    #[test]
    fn each_plugin_sees_what_those_before_have_changed() {
        let mut m = both();
        let id = m.submit(TestJob::new().name("x")).unwrap();
        assert_eq!(m.job(id).jobspec().name(), Some("xab"));
        assert_eq!(m.messages(), [r#"a saw "x""#, r#"b saw "xa""#]);
    }

    #[test]
    fn validation_comes_after_all_changes() {
        let mut m = both();
        m.submit(TestJob::new().name("x")).unwrap();
        assert!(m.log().any(|(_, text)| text == "a: validates xab"));
    }

    #[test]
    fn the_first_refusal_stops_the_chain() {
        let mut m = both();
        let refused = m.submit(TestJob::new().name("xa")).unwrap_err();
        assert_eq!(refused, "Access/permission denied: xa has a already");
        assert_eq!(m.messages(), Vec::<String>::new());
        let refused = m.submit(TestJob::new().name("xb")).unwrap();
        assert_eq!(m.job(refused).jobspec().name(), Some("xbab"));
    }

    #[test]
    fn messages_come_with_a_refusal_of_a_later_plugin_or_gate() {
        let mut m = both();
        assert_eq!(m.submit(TestJob::new().name("invalid")).unwrap_err(), "the name is invalid");
        assert_eq!(m.messages(), [r#"a saw "invalid""#, r#"b saw "invalida""#]);
    }

    /// Stops the chain before the plugin `B`.
    #[derive(Default)]
    struct Talkative;

    #[jobtap_plugin(name = "aa", before = ["b"])]
    impl Talkative {
        #[on("slurm.job_submit")]
        fn submit(cx: Cx<'_, SlurmJobSubmit>) -> Result<(), SlurmError> {
            cx.user_message("ask your administrator");
            Err(errno::ESLURM_INVALID_ACCOUNT)
        }
    }

    #[test]
    fn the_message_of_the_plugin_that_refuses_comes_too() {
        let mut m = TestManager::new().plugin::<Talkative>().plugin::<B>().start();
        assert_eq!(
            m.submit(TestJob::new()).unwrap_err(),
            errno::ESLURM_INVALID_ACCOUNT.to_string()
        );
        assert_eq!(m.messages(), ["ask your administrator"]);
    }

    /// Reads and writes what a jobspec has elsewhere: queue, time limit, environment.
    #[derive(Default)]
    struct Router;

    #[jobtap_plugin(name = "router")]
    impl Router {
        #[on("slurm.job_submit")]
        fn submit(
            &self,
            mut desc: Descriptor<'_>,
            user: SubmitUid,
            partitions: Partitions<'_>,
        ) -> Result<(), SlurmError> {
            if desc.partition.is_none() {
                let long = desc.time_limit.is_some_and(|minutes| minutes > 60);
                let name = if long { "long" } else { "short" };
                let found = partitions.get(name).ok_or(errno::ESLURM_INVALID_PARTITION_NAME)?;
                desc.partition.clone_from(&found.name);
            }
            desc.environment.set("SUBMITTER", user.0.to_string());
            Ok(())
        }
    }

    #[test]
    fn the_partition_is_chosen_before_the_queue_is_checked() {
        let config = json!({"queues": {"short": {}, "long": {}}});
        let mut m =
            TestManager::new().plugin::<ByUrgency>().plugin::<Router>().config(config).start();
        let id = m.submit(TestJob::new().duration(7200.0)).unwrap();
        assert_eq!(m.job(id).jobspec().queue(), Some("long"));
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.job(id).jobspec().queue(), Some("short"));
        m.disable_queue("short", "not today").unwrap();
        assert!(m.submit(TestJob::new()).is_err());
    }

    #[test]
    fn a_changed_environment_is_kept_beside_the_signed_request() {
        let config = json!({"queues": {"short": {}, "long": {}}});
        let mut m =
            TestManager::new().plugin::<ByUrgency>().plugin::<Router>().config(config).start();
        let job = TestJob::new().attribute("environment", json!({"A": "1"})).user(1001);
        let id = m.submit(job).unwrap();
        let wanted = json!({"A": "1", "SUBMITTER": "1001"});
        assert_eq!(m.changed_environment(id), Some(wanted));
        assert!(m.job(id).jobspec().environment().is_none());
    }

    /// Asks for nodes with a feature that none can have.
    #[derive(Default)]
    struct Impossible;

    #[jobtap_plugin(name = "impossible")]
    impl Impossible {
        #[on("slurm.job_submit")]
        fn submit(&self, mut desc: Descriptor<'_>) {
            desc.features = Some("(".to_owned());
        }
    }

    /// Reports which fields a change names.
    #[derive(Default)]
    struct Naming;

    #[jobtap_plugin(name = "naming")]
    impl Naming {
        #[on("slurm.job_modify")]
        fn modify(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobModify>) {
            let (limit, name) = (desc.time_limit, desc.name.as_deref());
            cx.user_message(format!("{limit:?} {name:?} {:?}", desc.account));
        }

        #[on("job.update.attributes.system.duration", "job.update.attributes.system.job.name")]
        fn allow(&self) -> Update {
            Update::allow()
        }
    }

    #[test]
    fn a_change_describes_what_the_user_names() {
        let mut m = with::<Naming>();
        let job = TestJob::new().duration(600.0).name("app").attribute("bank", "chem").urgency(0);
        let id = m.submit(job).unwrap();
        // The value is the same as before, but the plugin sees it all the same.
        m.update(id, DURATION, 600.0).unwrap();
        assert_eq!(m.messages(), ["Some(10) None None"]);
        m.update(id, "attributes.system.job.name", "app").unwrap();
        assert_eq!(m.messages(), ["None Some(\"app\") None"]);
    }

    #[test]
    fn a_change_that_no_job_can_have_is_refused_in_words() {
        let mut m = with::<Impossible>();
        let refused = m.submit(TestJob::new()).unwrap_err().text();
        let begin = "what plugins have made of the request is no valid job: ";
        assert!(refused.starts_with(begin), "{refused}");
    }

    /// Panics for the name `boom`.
    #[derive(Default)]
    struct Broken;

    #[jobtap_plugin(name = "broken")]
    impl Broken {
        #[on("slurm.job_submit")]
        fn submit(
            &self,
            desc: Descriptor<'_>,
            cx: Cx<'_, SlurmJobSubmit>,
        ) -> Result<(), SlurmError> {
            cx.user_message("before the panic");
            if desc.name.as_deref() == Some("boom") {
                panic!("no such account");
            }
            Ok(())
        }
    }

    #[test]
    fn a_panic_refuses_the_request_and_is_logged() {
        let mut m = with::<Broken>();
        let refused = m.submit(TestJob::new().name("boom")).unwrap_err();
        assert_eq!(refused, "plugin broken failed; the request is refused, please report it");
        let logged = "broken: slurm.job_submit: request of user 1000: panicked: no such account";
        assert!(m.log().any(|(_, text)| text == logged));
        assert_eq!(m.messages(), Vec::<String>::new());
        m.submit(TestJob::new()).unwrap();
    }

    #[test]
    fn a_faulted_plugin_refuses_every_request() {
        let mut m = with::<Broken>();
        for _ in 0..3 {
            m.submit(TestJob::new().name("boom")).unwrap_err();
        }
        let refused = m.submit(TestJob::new()).unwrap_err().text();
        assert!(refused.starts_with("plugin broken has failed repeatedly"), "{refused}");
        m.remove_plugin("broken").unwrap();
        m.submit(TestJob::new()).unwrap();
    }

    #[test]
    fn events_are_those_of_any_job() {
        let mut m = both();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate depend priority alloc start");
    }
}

mod answers {
    use super::*;

    /// Asks a server for the account.
    #[derive(Default)]
    struct Asking;

    #[jobtap_plugin(name = "asking")]
    impl Asking {
        #[on("slurm.job_submit", timeout = "10s")]
        async fn submit(
            mut desc: JobDescriptor,
            user: SubmitUid,
            partitions: Vec<Partition>,
            messages: UserMessages,
            remote: Remote<Self>,
        ) -> Result<JobDescriptor, SlurmError> {
            messages.send(format!("asking for {} in {} partitions", user.0, partitions.len()));
            let end = remote.run_process(Process::new("ask")).await;
            match end.map(|end| end.success()) {
                Ok(Ok(())) if desc.name.as_deref() == Some("boom") => panic!("no name"),
                Ok(Ok(())) => {
                    desc.name = Some("asked".to_owned());
                    Ok(desc)
                }
                Ok(Err(how)) => Err(errno::ESLURM_INVALID_ACCOUNT.with(how.to_string())),
                Err(error) => Err(errno::ESLURM_INTERNAL.with(error.to_string())),
            }
        }
    }

    /// Is called after `Asking`, and shows what it sees.
    #[derive(Default)]
    struct Last;

    #[jobtap_plugin(name = "last", after = ["asking"])]
    impl Last {
        #[on("slurm.job_submit")]
        fn submit(desc: Descriptor<'_>, cx: Cx<'_, SlurmJobSubmit>) {
            cx.user_message(format!("last sees {:?}", desc.name));
        }
    }

    fn manager() -> TestManager {
        let mut m =
            TestManager::new().plugin::<ByUrgency>().plugin::<Asking>().plugin::<Last>().start();
        m.hold_processes();
        m
    }

    #[test]
    fn the_next_plugin_is_called_with_the_answer() {
        let mut m = manager();
        assert_eq!(m.submit(TestJob::new()).unwrap_err(), "the submission waits for an answer");
        m.end_process("ask", WaitStatus::SUCCESS);
        let id = m.late_responses().pop().unwrap().unwrap();
        assert_eq!(m.job(id).jobspec().name(), Some("asked"));
        let said = ["asking for 1000 in 1 partitions", r#"last sees Some("asked")"#];
        assert_eq!(m.messages(), said);
    }

    #[test]
    fn a_refusal_stops_the_chain_with_the_messages_so_far() {
        let mut m = manager();
        m.submit(TestJob::new()).unwrap_err();
        m.end_process("ask", WaitStatus::from_exit_code(3));
        let refused = m.late_responses().pop().unwrap().unwrap_err().text();
        assert!(refused.ends_with(": exit code 3"), "{refused}");
        assert_eq!(m.messages(), ["asking for 1000 in 1 partitions"]);
    }

    #[test]
    fn a_panic_refuses() {
        let mut m = manager();
        m.submit(TestJob::new().name("boom")).unwrap_err();
        m.end_process("ask", WaitStatus::SUCCESS);
        let refused = m.late_responses().pop().unwrap().unwrap_err();
        assert_eq!(refused, "asking.submit panicked: no name");
        assert!(m.log().any(|(level, text)| level == Level::Error && text.contains("no name")));
    }

    #[test]
    fn a_handler_that_takes_too_long_refuses() {
        let mut m = manager();
        m.submit(TestJob::new()).unwrap_err();
        m.advance(11.0);
        let refused = m.late_responses().pop().unwrap().unwrap_err();
        assert_eq!(refused, "asking.submit: no end after 10 s");
        assert_eq!(m.running_processes().count(), 0);
    }

    #[test]
    fn requests_wait_independently_of_each_other() {
        let mut m = manager();
        m.submit(TestJob::new().user(7)).unwrap_err();
        m.submit(TestJob::new().user(8)).unwrap_err();
        assert_eq!(m.running_processes().count(), 2);
        m.end_process("ask", WaitStatus::SUCCESS);
        m.end_process("ask", WaitStatus::SUCCESS);
        assert_eq!(m.late_responses().into_iter().filter(Result::is_ok).count(), 2);
    }

    #[test]
    fn a_removed_plugin_refuses_what_waits_for_it() {
        let mut m = manager();
        m.submit(TestJob::new()).unwrap_err();
        m.remove_plugin("asking").unwrap();
        let refused = m.late_responses().pop().unwrap().unwrap_err();
        assert_eq!(refused, "plugin asking was removed before it answered");
        m.submit(TestJob::new()).unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_waiting_request_after_a_restart() {
        let mut m = manager();
        m.submit(TestJob::new()).unwrap_err();
        m.crash_and_restart();
        assert_eq!(m.jobs().len(), 0);
        m.submit(TestJob::new()).unwrap_err();
        m.end_process("ask", WaitStatus::SUCCESS);
        assert!(m.late_responses().pop().unwrap().is_ok());
    }
}

mod changes {
    use super::*;

    /// Rounds time limits up to ten minutes, caps priorities at 20, and reports who changes a job.
    #[derive(Default)]
    struct Changes;

    #[jobtap_plugin(name = "changes")]
    impl Changes {
        #[on("slurm.job_modify")]
        fn modify(
            &self,
            mut desc: Descriptor<'_>,
            job: &Job,
            user: SubmitUid,
            cx: Cx<'_, SlurmJobModify>,
        ) -> Result<(), SlurmError> {
            cx.user_message(format!("{} changes the job in {}", user.0, job.state().long_name()));
            if let Some(minutes) = desc.time_limit {
                if minutes > 100 {
                    return Err(errno::ESLURM_INVALID_TIME_LIMIT);
                }
                desc.time_limit = Some(minutes.next_multiple_of(10));
                desc.comment = Some(format!("wanted {minutes}"));
            }
            if let Some(priority) = &mut desc.priority {
                *priority = (*priority).min(20);
            }
            Ok(())
        }

        #[on("job.update.attributes.system.duration")]
        fn duration(request: &UpdateRequest) -> Result<Update, Reject> {
            let seconds: f64 = request.read()?;
            Reject::when(seconds == 3000.0, "no fifty minutes")?;
            Ok(Update::allow())
        }
    }

    #[test]
    fn a_change_passes_the_plugins_before_those_of_its_key() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        m.update(id, DURATION, 60.0 * 31.0).unwrap();
        assert_eq!(m.job(id).jobspec().duration(), 2400.0);
        assert_eq!(m.messages(), ["1000 changes the job in SCHED"]);
        // The handler of the key sees the request as changed by the chain.
        assert_eq!(m.update(id, DURATION, 60.0 * 42.0).unwrap_err(), "no fifty minutes");
        assert_eq!(m.messages(), ["1000 changes the job in SCHED"]);
    }

    #[test]
    fn what_a_plugin_adds_is_changed_too() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        m.update(id, DURATION, 60.0 * 31.0).unwrap();
        let described = JobDescriptor::from_jobspec(m.job(id).jobspec().value());
        assert_eq!(described.comment.as_deref(), Some("wanted 31"));
    }

    #[test]
    fn a_refusal_has_the_messages_and_changes_nothing() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().urgency(0).duration(60.0)).unwrap();
        let refused = m.update(id, DURATION, 60.0 * 101.0).unwrap_err();
        assert_eq!(refused, errno::ESLURM_INVALID_TIME_LIMIT.to_string());
        assert_eq!(m.messages(), ["1000 changes the job in SCHED"]);
        assert_eq!(m.job(id).jobspec().duration(), 60.0);
    }

    #[test]
    fn a_key_without_a_plugin_stays_unsupported() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        let path = "attributes.system.cwd";
        assert_eq!(m.update(id, path, "/").unwrap_err(), format!("update of {path} not supported"));
    }

    #[test]
    fn the_urgency_is_the_priority() {
        let mut m = with::<Changes>();
        m.hold_scheduling().unwrap();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        m.urgency(id, 25).unwrap();
        assert_eq!(m.job(id).urgency().value(), 20);
        assert_eq!(m.messages(), ["1000 changes the job in SCHED"]);
        m.urgency(id, 12).unwrap();
        assert_eq!(m.job(id).urgency().value(), 12);
    }

    /// Runs a process before each change.
    #[derive(Default)]
    struct Slow;

    #[jobtap_plugin(name = "slow")]
    impl Slow {
        #[on("slurm.job_modify")]
        async fn modify(remote: Remote<Self>) -> Result<(), SlurmError> {
            let end = remote.run_process(Process::new("ask")).await;
            end.map(|_| ()).map_err(|error| errno::ESLURM_INTERNAL.with(error.to_string()))
        }

        #[on("job.update.attributes.system.duration")]
        fn duration() -> Update {
            Update::allow().validated()
        }
    }

    #[test]
    fn a_job_that_is_cancelled_meanwhile_is_not_changed() {
        let mut m = with::<Slow>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.update(id, DURATION, 60.0).unwrap_err(), "the manager has not answered");
        m.cancel(id).unwrap();
        m.end_process("ask", WaitStatus::SUCCESS);
        assert_eq!(m.late_responses().pop().unwrap().unwrap_err(), "job is inactive");
    }

    #[test]
    fn two_changes_of_a_job_may_wait_at_once() {
        let mut m = with::<Slow>();
        m.hold_processes();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        m.update(id, DURATION, 60.0).unwrap_err();
        m.urgency(id, 5).unwrap_err();
        m.end_process("ask", WaitStatus::SUCCESS);
        m.end_process("ask", WaitStatus::SUCCESS);
        assert_eq!(m.job(id).jobspec().duration(), 60.0);
        assert_eq!(m.job(id).urgency().value(), 5);
    }
}
