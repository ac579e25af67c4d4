//! Work that runs after the calls of a handler owns what it uses.
use jobtap_core::prelude::*;

struct Site {
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { remote }
    }

    #[on("job.state.sched")]
    fn waits(&self, job: &Job, cx: Cx<'_, JobStateSched>) {
        cx.reprioritize_all();
        cx.then(&self.remote, |_, cx| cx.log(Level::Info, job.id().to_string()));
    }
}

fn main() {}
