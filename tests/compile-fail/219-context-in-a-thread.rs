//! A context is lent for the callback; `Remote` leads back from a thread.
use std::thread;

use jobtap_core::prelude::*;

#[derive(Default)]
struct Site {
    seen: u32,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&mut self, cx: Cx<'_, JobNew>) {
        self.seen += 1;
        thread::spawn(move || cx.log(Level::Info, "later"));
    }
}

fn main() {}
