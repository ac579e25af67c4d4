//! A function for handlers of several topics says that its parameter is a topic.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

fn hour<T>(cx: &Cx<'_, T>) {
    let _ = cx;
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.validate")]
    fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        hour(&cx);
        Ok(())
    }
}

fn main() {}
