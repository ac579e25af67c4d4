//! A closure that runs later gets the plugin as its first argument; it can't borrow the handler's.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site {
    late: u32,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&mut self, remote: Remote<Self>) {
        remote.after(5.0, |_, _| self.late += 1);
    }
}

fn main() {}
