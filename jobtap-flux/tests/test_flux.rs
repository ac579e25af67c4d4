//! Tests that the double of Flux takes jobs through the same events as our own manager.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jobtap_core::host::{HostKind, panic_text};
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{HostSetup, TestHost, TestHosts, TestJob, TestManager};
use jobtap_flux::testing::{TestFlux, TestFluxError};
use serde_json::json;

#[derive(Default)]
struct Everything;

#[jobtap_plugin(name = "everything", load = "by-name")]
impl Everything {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        Reject::when(job.jobspec().counts().ntasks > 8, "many ".repeat(100))
    }

    #[on("job.dependency.later")]
    fn dependency(
        &self,
        job: &Job,
        remote: Remote<Self>,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        cx.dependency_add("later").or_reject()?;
        let id = job.id();
        remote.at(cx.now() + 5.0, move |_, cx| {
            if let Ok(job) = cx.active_job(id)
                && let Some(dependency) = job.dependency("later")
            {
                cx.dependency_remove(dependency);
            }
        });
        Ok(())
    }

    #[on("job.state.depend")]
    fn shorten(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
        if job.jobspec().duration() > 100.0 {
            cx.jobspec_update(path!("attributes.system.duration"), 100.0)?;
        }
        Ok(())
    }

    #[on("job.state.run")]
    async fn prolog(remote: Remote<Self>) -> Result<(), PrologFailed> {
        let end = remote.run_process(Process::new("prepare")).await?;
        Ok(end.success()?)
    }

    #[on("job.state.cleanup")]
    async fn epilog(remote: Remote<Self>) -> Result<(), EpilogFailed> {
        remote.run_process(Process::new("clean-up")).await?;
        Ok(())
    }
}

fn hosts() -> TestHosts {
    TestHosts::new().plugin::<Everything>().host::<TestManager>().host::<TestFlux>()
}

fn flux<P: Plugin>() -> Result<TestFlux, TestFluxError> {
    TestFlux::start(&HostSetup { plugins: vec![P::DESCRIPTOR], config: json!({}) })
}

#[test]
fn a_job_has_the_same_events_as_in_our_manager() {
    hosts().each(|host| {
        let id = host.submit(TestJob::new().duration(1000.0)).unwrap();
        assert_eq!(host.priority(id), Some(16));
        assert_eq!(host.jobspec(id).pointer("/attributes/system/duration"), Some(&json!(100.0)));
        host.run(id).unwrap();
        host.end(id, 0).unwrap();
        // Our manager has two more events.
        let mut events = host.events(id);
        events.retain(|name| !matches!(&**name, "submit" | "release"));
        let expected = "validate jobspec-update depend priority alloc prolog-start prolog-finish \
                        start finish epilog-start epilog-finish free clean";
        assert_eq!(events.join(" "), expected);
    });
}

/// Notes how many nodes a job has.
#[derive(Default)]
struct Counting;

#[jobtap_plugin(name = "counting", load = "by-name")]
impl Counting {
    #[on("job.state.run")]
    fn runs(
        &self,
        job: &Job,
        resources: &ResourceSet,
        cx: Cx<'_, JobStateRun>,
    ) -> Result<(), HandlerError> {
        Ok(cx.memo(job, "nodes", resources.nnodes())?)
    }
}

#[test]
fn a_handler_gets_the_resources_of_its_job() {
    let hosts = TestHosts::new().plugin::<Counting>().host::<TestManager>().host::<TestFlux>();
    hosts.each(|host| {
        let id = host.submit(TestJob::new()).unwrap();
        host.run(id).unwrap();
        let events = host.events(id);
        assert!(events.iter().any(|name| name == "memo"), "{events:?}");
    });
}

#[test]
fn a_prolog_that_fails_ends_the_job_before_it_starts() {
    hosts().each(|host| {
        host.end_processes_with(ProcessEnd::new(WaitStatus::from_exit_code(2)));
        let id = host.submit(TestJob::new()).unwrap();
        assert_eq!(host.run(id).unwrap_err(), "exit code 2");
        let mut events = host.events(id);
        events.retain(|name| !matches!(&**name, "submit" | "release"));
        let expected = "validate depend priority alloc prolog-start exception prolog-finish \
                        epilog-start epilog-finish free clean";
        assert_eq!(events.join(" "), expected);
    });
}

#[test]
fn a_dependency_holds_a_job_until_its_timer_fires() {
    let mut flux = flux::<Everything>().unwrap();
    let id = flux.submit(TestJob::new().dependency("later:x")).unwrap();
    assert_eq!(flux.state(id), State::Depend);
    assert_eq!(flux.run(id).unwrap_err(), "the job is in DEPEND");
    flux.advance(4.0);
    assert_eq!(flux.state(id), State::Depend);
    flux.advance(1.0);
    assert_eq!(flux.state(id), State::Sched);
}

#[test]
fn refusals_are_those_of_flux() {
    let mut flux = flux::<Everything>().unwrap();
    let text = flux.submit(TestJob::new().ntasks(9)).unwrap_err().text();
    assert_eq!((text.len(), text.ends_with('+')), (159, true), "{text}");
    let text = flux.submit(TestJob::new().dependency("other:x")).unwrap_err();
    assert_eq!(text, "dependency scheme \"other\" not supported");
}

#[derive(Default)]
struct Slurmish;

#[jobtap_plugin(name = "slurmish", load = "by-name")]
impl Slurmish {
    #[on("slurm.job_submit")]
    fn submit(&self) {}
}

#[test]
fn a_plugin_that_flux_does_not_serve_is_refused_at_the_start() {
    let error = flux::<Slurmish>().unwrap_err().to_string();
    assert!(error.starts_with("plugin \"slurmish\" can't run in Flux: submit handles "), "{error}");
}

/// Sets annotations and memos, from callbacks and from later work.
#[derive(Default)]
struct Shows;

#[jobtap_plugin(name = "shows", load = "by-name")]
impl Shows {
    #[on("job.state.depend")]
    async fn depend(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        let id = job.id;
        remote
            .call(move |_, cx| -> Result<(), CallError> {
                let job = cx.active_job(id)?;
                cx.annotate(job, Annotations::new().with("stage", json!({"of": 4, "done": 1})))?;
                cx.annotate(job, Annotations::new().with("stage", json!({"done": 2})))?;
                cx.memo(job, "place", "north")
            })
            .await??;
        Ok(())
    }

    #[on("job.state.sched")]
    fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<Annotations, HandlerError> {
        cx.annotate(job, Annotations::new().with("quota", 3))?;
        Ok(Annotations::new().with("turn", 1))
    }

    #[on("job.state.run")]
    fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        Ok(cx.guest_put(job, "tools.shows.path", "/x")?)
    }
}

#[test]
fn annotations_are_shown_from_callbacks_and_from_later_work() {
    let hosts = TestHosts::new().plugin::<Shows>().host::<TestManager>().host::<TestFlux>();
    hosts.each(|host| {
        let id = host.submit(TestJob::new()).unwrap();
        let shown = host.annotations(id);
        assert_eq!((&shown["quota"], &shown["turn"]), (&json!(3), &json!(1)));
        assert_eq!(shown["user"]["place"], "north");
        let later = match host.kind() {
            HostKind::Flux => &shown["user"]["stage"],
            _ => &shown["stage"],
        };
        assert_eq!(*later, json!({"of": 4, "done": 2}));
    });
}

#[test]
fn a_call_that_flux_does_not_serve_fails_the_test() {
    let hosts = TestHosts::new().plugin::<Shows>().host::<TestFlux>();
    let run = |takes: bool| {
        let hosts = hosts.clone();
        catch_unwind(AssertUnwindSafe(move || {
            hosts.each(|host| {
                let id = host.submit(TestJob::new()).unwrap();
                host.run(id).unwrap();
                if takes {
                    assert_eq!(host.unserved().len(), 1);
                }
            });
        }))
    };
    let text = panic_text(&*run(false).unwrap_err());
    let expected = "over TestFlux: calls are not served: shows: Flux doesn't serve `guest_put`: ";
    assert!(text.contains(expected), "{text}");
    run(true).unwrap();
}
