//! Outcomes and states that have no effect, and limits that no longer exist.

use super::*;

/// Sets a priority at first, and none later.
#[derive(Default)]
struct Forgetful;

#[jobtap_plugin(name = "forgetful")]
impl Forgetful {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(5)
    }

    #[on("job.priority.get")]
    fn again(&self) -> Priority {
        Priority::UNAVAILABLE
    }

    #[service("ask")]
    fn ask(&self, cx: Cx<'_, Service>) {
        cx.reprioritize_all();
    }
}

#[test]
fn a_job_in_sched_keeps_its_priority_when_none_is_available() {
    let mut m = with::<Forgetful>();
    m.scheduling(false).unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    m.call_service("forgetful.ask", json!({})).unwrap();
    assert_eq!(m.job(id).priority(), Some(5));
    assert!(m.log().any(|(_, text)| text.ends_with("lost its priority; it keeps the old one")));
}

#[derive(Default)]
struct Fails;

#[jobtap_plugin(name = "fails", before = ["watches"])]
impl Fails {
    #[on("job.state.run")]
    fn run(&self) -> Result<(), HandlerError> {
        Err(HandlerError::new("a disk is full"))
    }
}

#[derive(Default)]
struct Watches;

#[jobtap_plugin(name = "watches")]
impl Watches {
    #[on("job.state.run")]
    fn run(&self, cx: Cx<'_, JobStateRun>) {
        cx.log(Level::Info, "called");
    }
}

#[test]
fn a_handler_that_fails_in_a_state_stops_neither_the_job_nor_other_plugins() {
    let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Fails>().plugin::<Watches>();
    let mut m = builder.start();
    let id = m.submit(TestJob::new()).unwrap();
    m.assert_state(id, State::Run);
    assert_eq!(said(&m, "watches"), ["called"]);
    assert_eq!(said(&m, "fails"), [format!("job.state.run: job {id}: a disk is full")]);
}

/// Starts more prologs than a byte can count.
#[derive(Default)]
struct Many {
    open: Vec<Token>,
}

#[jobtap_plugin(name = "many")]
impl Many {
    #[on("job.state.run")]
    fn run(&mut self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        for n in 0..300 {
            self.open.push(cx.prolog_start(format!("prolog {n}"))?);
        }
        Ok(())
    }

    #[service("finish")]
    fn finish(&mut self) {
        self.open.drain(..).for_each(|token| token.finish(0));
    }
}

#[test]
fn any_number_of_prologs_may_be_open() {
    let mut m = with::<Many>();
    let id = m.submit(TestJob::new()).unwrap();
    assert!(!m.job(id).event_posted("start"));
    m.call_service("many.finish", json!({})).unwrap();
    let events = m.events(id);
    assert_eq!(events.iter().filter(|name| *name == "prolog-finish").count(), 300);
    assert_eq!(events.last().unwrap(), "start");
}
