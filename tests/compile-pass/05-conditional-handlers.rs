//! A handler that `#[cfg]` removes is not called.
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    #[cfg(any())]
    fn never(&self, _job: &NoSuchType) {}

    #[cfg(all())]
    #[on("job.new")]
    fn always(&self, _job: &Job) {}

    #[cfg(any())]
    #[on("job.state.run")]
    async fn scratch(_job: JobInfo) -> Result<(), PrologFailed> {
        Ok(())
    }

    #[cfg(all())]
    #[cfg(not(any()))]
    #[service("limit")]
    fn limit(&self) -> u32 {
        1
    }
}

fn main() {
    let methods: Vec<_> = Site::DESCRIPTOR.handlers.iter().map(|handler| handler.method).collect();
    assert_eq!(methods, ["always", "limit"]);
}
