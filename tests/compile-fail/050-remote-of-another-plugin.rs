//! `Remote` leads back to the plugin itself.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Other(u64);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.new")]
    fn new_job(&self, remote: Remote<Other>) {
        remote.run(|other, _cx| other.0 += 1);
    }
}

fn main() {}
