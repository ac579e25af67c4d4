//! A service answers by its `Responder` or by its return value.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[service("count")]
    fn count(&self, mut responder: Responder<u32>) -> Result<u32, ServiceError> {
        responder.send(&3)?;
        Ok(4)
    }
}

fn main() {}
