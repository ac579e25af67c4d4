//! A lock of the standard library can't be held across an `.await`.
use jobtap_core::prelude::*;

use std::sync::Mutex;

static COUNT: Mutex<u64> = Mutex::new(0);

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.run")]
    async fn scratch(remote: Remote<Self>) -> Result<(), PrologFailed> {
        let mut count = COUNT.lock()?;
        *count += 1;
        remote.sleep(1.0).await?;
        *count -= 1;
        Ok(())
    }
}

fn main() {}
