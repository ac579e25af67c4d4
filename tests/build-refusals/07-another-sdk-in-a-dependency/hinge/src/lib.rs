use jobtap_core::prelude::*;

struct Gate;

#[jobtap_plugin(name = "hinge")]
impl Gate {
    #[init]
    fn new() -> Self {
        Self
    }
}
