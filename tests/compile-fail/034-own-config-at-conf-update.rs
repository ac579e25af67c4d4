//! The plugin's own table comes with `#[init]`.
use jobtap_core::prelude::*;

#[derive(Deserialize)]
struct Settings {
    limit: u64,
}

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("conf.update")]
    fn update(&mut self, conf: Conf<Settings>) {
        let _ = conf.limit;
    }
}

fn main() {}
