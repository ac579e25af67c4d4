//! The payload of a request is written as JSON.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Storage;

struct Wanted {
    bytes: u64,
}

#[jobtap_plugin(name = "storage")]
impl Storage {
    #[on("job.state.run")]
    async fn make(remote: Remote<Self>) -> Result<(), PrologFailed> {
        let wanted = Wanted { bytes: 1 << 30 };
        Ok(remote.rpc("storage.create", &wanted).await?)
    }
}

fn main() {}
