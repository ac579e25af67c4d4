//! The configuration outlives the call, so it owns its texts.
use jobtap_core::prelude::*;

#[derive(Deserialize)]
pub struct Settings<'a> {
    pub host: &'a str,
}

#[derive(Default)]
struct Limits;

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[init]
    fn init(_conf: Conf<Settings<'_>>) -> Result<Self, ConfError> {
        Ok(Self)
    }
}

fn main() {}
