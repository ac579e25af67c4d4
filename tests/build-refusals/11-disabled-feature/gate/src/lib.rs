use jobtap_core::prelude::*;

struct Gate;

#[cfg(feature = "wide")]
#[jobtap_plugin(name = "gate")]
impl Gate {
    #[init]
    fn new() -> Self {
        Self
    }
}
