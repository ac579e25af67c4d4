//! What work for later uses goes to another thread and back.
use jobtap_core::prelude::*;

use std::rc::Rc;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, remote: Remote<Self>) {
        let name = Rc::new("late".to_owned());
        remote.after(5.0, move |_, cx| cx.log(Level::Info, name.as_str()));
    }
}

fn main() {}
