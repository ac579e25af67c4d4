//! Services that clients call, own topics by which plugins call each other, and data that plugins
//! store.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;
use crate::managers::with;

mod requests {
    use super::*;

    #[derive(Deserialize)]
    struct Add {
        by: i64,
    }

    #[derive(Default)]
    struct Desk {
        sum: i64,
        open: Vec<Responder<i64>>,
    }

    #[jobtap_plugin(name = ".desk")]
    impl Desk {
        #[service]
        fn all(&self) -> i64 {
            self.sum
        }

        #[service("add")]
        fn add(&mut self, request: Request<Add>) -> Result<i64, ServiceError> {
            if request.by == 0 {
                return Err(ServiceError::invalid("nothing to add"));
            }
            self.sum += request.by;
            for responder in &mut self.open {
                responder.send(&self.sum)?;
            }
            Ok(self.sum)
        }

        #[service("whoami", role = "guest")]
        fn whoami(caller: Caller) -> (u32, bool) {
            (caller.userid.as_u32(), caller.owner)
        }

        #[service("watch")]
        fn watch(&mut self, responder: Responder<i64>) {
            self.open.push(responder);
        }

        #[service("close")]
        fn close(&mut self) {
            self.open.clear();
        }

        #[service("later")]
        async fn later(request: Request<Add>, remote: Remote<Self>) -> Result<i64, ServiceError> {
            remote.sleep(5.0).await?;
            let by = request.by;
            Ok(remote.call(move |desk, _cx| desk.sum * by).await?)
        }

        #[service("broken")]
        fn broken() {
            panic!("out of paper");
        }
    }

    #[test]
    fn a_service_takes_and_gives_its_own_types() {
        let mut m = with::<Desk>();
        assert_eq!(m.call_service("desk.add", json!({"by": 3})).unwrap(), 3);
        assert_eq!(m.call_service("desk", json!({})).unwrap(), 3);
        assert_eq!(m.call_service("desk.add", json!({"by": 0})).unwrap_err(), "nothing to add");
        let error = m.call_service("desk.add", json!({"by": "x"})).unwrap_err().text();
        assert!(error.contains("invalid type"), "{error}");
        let error = m.call_service("desk.nosuch", json!({})).unwrap_err().text();
        let begin =
            "Unknown service method 'job-manager.desk.nosuch'; desk has 'desk', 'desk.add', ";
        assert!(error.starts_with(begin), "{error}");
    }

    #[test]
    fn a_misspelt_service_is_answered_with_the_one_that_was_meant() {
        let mut m = with::<Desk>();
        for (wrong, hint) in [
            ("desk.ad", "; did you mean 'desk.add'?"),
            ("dest.whoami", "; did you mean 'desk.whoami'?"),
            ("desc", "; did you mean 'desk'?"),
            ("accounts.add", ""),
        ] {
            let error = m.call_service(wrong, json!({})).unwrap_err();
            assert_eq!(error, format!("Unknown service method 'job-manager.{wrong}'{hint}"));
        }
        // The hint doesn't reveal to a guest what only the owner may call.
        let error = m.call_service_as(7, "desk.ad", json!({"by": 3})).unwrap_err().text();
        assert!(!error.contains("'desk.add'"), "{error}");
    }

    #[test]
    fn guests_reach_only_what_is_theirs() {
        let mut m = with::<Desk>();
        let refused = m.call_service_as(7, "desk.add", json!({"by": 3})).unwrap_err();
        assert_eq!(refused, "Request requires owner credentials");
        assert_eq!(m.call_service_as(7, "desk.whoami", json!({})).unwrap(), json!([7, false]));
    }

    #[test]
    fn a_stream_goes_on_until_its_responder_is_gone() {
        let mut m = with::<Desk>();
        let stream = m.open_stream("desk.watch", json!({}));
        m.call_service("desk.add", json!({"by": 1})).unwrap();
        m.call_service("desk.add", json!({"by": 1})).unwrap();
        assert_eq!(m.read_stream(stream), (vec![json!(1), json!(2)], None));
        m.call_service("desk.close", json!({})).unwrap();
        assert_eq!(m.read_stream(stream), (vec![], Some(Ok(()))));
    }

    #[test]
    fn an_answer_that_is_awaited_when_its_plugin_is_removed_says_so() {
        let mut m = with::<Desk>();
        let stream = m.open_stream("desk.watch", json!({}));
        m.remove_plugin(".desk").unwrap();
        let end = m.read_stream(stream).1.unwrap().unwrap_err();
        assert_eq!(end, "plugin .desk was removed before it answered");
    }

    #[test]
    fn an_asynchronous_service_answers_when_it_is_done() {
        let mut m = with::<Desk>();
        m.call_service("desk.add", json!({"by": 21})).unwrap();
        let later = m.open_stream("desk.later", json!({"by": 2}));
        m.advance(4.0);
        assert_eq!(m.read_stream(later), (vec![], None));
        m.advance(2.0);
        assert_eq!(m.read_stream(later).1, Some(Ok(())));
    }

    #[test]
    fn a_service_that_panics_answers_and_is_logged() {
        let mut m = with::<Desk>();
        let error = m.call_service("desk.broken", json!({})).unwrap_err();
        assert_eq!(error, "plugin .desk failed; please report it");
        assert!(m.log().any(|(_, text)| text == ".desk: service: panicked: out of paper"));
    }
}

mod own_topics {
    use super::*;

    /// What is a user's share?
    #[topic("bank.share", answer = u32)]
    struct ShareOf {
        user: Uid,
    }

    /// A job was charged.
    #[topic("bank.charged", job)]
    struct Charged;

    #[derive(Default)]
    struct Bank {
        charged: u32,
    }

    #[jobtap_plugin(name = "bank")]
    impl Bank {
        #[on(ShareOf)]
        fn share(&self, ask: &ShareOf, cx: Cx<'_, ShareOf>) -> Result<u32, HandlerError> {
            cx.log(Level::Info, "asked");
            match ask.user.as_u32() {
                0 => Err(HandlerError::new("root has no account")),
                1 => panic!("no account 1"),
                user => Ok(user * 10 + self.charged),
            }
        }

        #[on(Charged)]
        fn charged(&mut self, job: &Job) {
            self.charged += u32::from(job.urgency().value());
        }

        #[on("job.new")]
        fn myself(&self, job: &Job, cx: Cx<'_, JobNew>) {
            let user = job.userid();
            if let Err(error) = cx.call(&ShareOf { user }) {
                cx.log(Level::Warning, error.to_string());
            }
        }
    }

    #[derive(Default)]
    struct Fair;

    #[jobtap_plugin(name = "fair", after = ["bank"])]
    impl Fair {
        #[on("job.state.priority")]
        fn priority(
            &self,
            job: &Job,
            cx: Cx<'_, JobStatePriority>,
        ) -> Result<Priority, HandlerError> {
            cx.log(Level::Info, "asks");
            cx.call_for(job, &Charged)?;
            let shares = cx.call(&ShareOf { user: job.userid() })?;
            Ok(Priority::new(shares.iter().sum::<u32>()))
        }
    }

    fn manager() -> TestManager {
        TestManager::new().plugin::<ByUrgency>().plugin::<Bank>().plugin::<Fair>().start()
    }

    #[test]
    fn a_plugin_asks_another_one_and_gets_its_answer() {
        let mut m = manager();
        let id = m.submit(TestJob::new().user(7)).unwrap();
        assert_eq!(m.job(id).priority(), Some(7 * 10 + 16));
        // The host commands of the called plugin are carried out in its own name.
        assert!(m.log().any(|(_, text)| text == "bank: asked"));
    }

    #[test]
    fn a_circle_is_an_error_and_not_a_deadlock() {
        let mut m = manager();
        m.submit(TestJob::new().user(7)).unwrap();
        let said =
            "bank: topic bank.share is called in a circle: plugin bank is being called already";
        assert!(m.log().any(|(_, text)| text == said));
    }

    #[test]
    fn a_failing_or_panicking_answer_is_the_callers_error() {
        let mut m = manager();
        let id = m.submit(TestJob::new().user(0)).unwrap();
        // Without a share, the priority of the plugin before stands.
        assert_eq!(m.job(id).priority(), Some(16));
        m.submit(TestJob::new().user(1)).unwrap();
        let log: Vec<&str> = m.log().map(|(_, text)| text).collect();
        let failed = "topic bank.share: plugin bank: root has no account";
        assert!(log.iter().any(|line| line.ends_with(failed)), "{log:?}");
        assert!(log.contains(&"bank: panicked: no account 1"), "{log:?}");
        // The host commands of the plugin that panicked are dropped; those that its caller had
        // queued before are carried out.
        let count = |text: &str| log.iter().filter(|line| **line == text).count();
        assert_eq!((count("bank: asked"), count("fair: asks")), (1, 2), "{log:?}");
    }
}

mod kept {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Total {
        jobs: u64,
    }

    #[data(volatile)]
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Seen(u64);

    #[derive(Default)]
    struct Usage;

    #[jobtap_plugin(name = "usage", data = Seen, instance_data = Total)]
    impl Usage {
        #[on("job.new")]
        fn new_job(
            &self,
            job: &Job,
            seen: Data<'_, Seen>,
            total: InstanceData<'_, Total>,
            cx: Cx<'_, JobNew>,
        ) -> Result<(), HandlerError> {
            if job.state() == State::New {
                total.update(|total| total.jobs += 1)?;
                seen.set(&Seen(total.get()?.jobs))?;
            }
            cx.log(Level::Info, format!("{} {}", total.get()?.jobs, seen.get()?.0));
            Ok(())
        }
    }

    #[test]
    fn data_on_the_instance_outlives_a_crash_and_volatile_data_does_not() {
        let mut m = with::<Usage>();
        m.submit(TestJob::new().urgency(0)).unwrap();
        m.submit(TestJob::new().urgency(0)).unwrap();
        m.crash_and_restart();
        let said: Vec<&str> = m.log().filter_map(|(_, t)| t.strip_prefix("usage: ")).collect();
        assert_eq!(said, ["1 1", "2 2", "2 0", "2 0"]);
    }

    #[derive(Default)]
    struct Old;

    #[jobtap_plugin(name = "counted", data = u32)]
    impl Old {
        #[on("job.new")]
        fn new_job(&self, data: Data<'_, u32>) -> Result<(), HandlerError> {
            Ok(data.set(&7)?)
        }
    }

    #[data(version = 2, upgrade = from_number)]
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Counted {
        count: u32,
    }

    fn from_number(version: u32, old: serde_json::Value) -> Result<Counted, UpgradeError> {
        match (version, old.as_u64().and_then(|count| u32::try_from(count).ok())) {
            (1, Some(count)) => Ok(Counted { count }),
            _ => Err(UpgradeError::new("no number")),
        }
    }

    #[derive(Default)]
    struct New;

    #[jobtap_plugin(name = "counted", data = Counted)]
    impl New {
        #[on("job.new")]
        fn new_job(&self, data: Data<'_, Counted>, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            cx.log(Level::Info, format!("count {}", data.get()?.count));
            Ok(())
        }
    }

    #[test]
    fn a_newer_plugin_reads_what_the_older_one_stored() {
        let mut m = with::<Old>();
        m.submit(TestJob::new().urgency(0)).unwrap();
        m.replace_plugin::<Old, New>();
        m.crash_and_restart();
        assert!(m.log().any(|(_, text)| text == "counted: count 7"));
    }
}

mod guest_keys {
    use super::*;

    #[derive(Default)]
    struct Burst;

    #[jobtap_plugin(name = "burst")]
    impl Burst {
        #[service("put")]
        fn put(
            &self,
            request: Request<(JobId, String)>,
            cx: Cx<'_, Service>,
        ) -> Result<(), ServiceError> {
            let (id, key) = request.into_inner();
            Ok(cx.guest_put(cx.active_job(id)?, key, json!({"path": "/bb"}))?)
        }
    }

    #[test]
    fn a_plugin_writes_below_application_and_tools() {
        let mut m = with::<Burst>();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        for key in ["application.x", "tools.burst-buffer.path", "application.a.b_2"] {
            m.call_service("burst.put", json!([id, key])).unwrap();
            assert_eq!(m.guest_value(id, key), Some(json!({"path": "/bb"})), "{key}");
        }
        let long = format!("application.{}", "x".repeat(256));
        for key in [
            "",
            "application",
            "tools.x",
            "exec.eventlog",
            "output",
            "application..x",
            "tools.x.\n",
            &long,
        ] {
            let refused = m.call_service("burst.put", json!([id, key])).unwrap_err().text();
            assert!(refused.contains("a plugin writes `application.KEY`"), "{key:?}: {refused}");
        }
        m.crash_and_restart();
        m.assert_state(id, State::Sched);
    }
}
