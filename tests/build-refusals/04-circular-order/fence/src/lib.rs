use jobtap_core::prelude::*;

struct Gate;

#[jobtap_plugin(name = "fence", before = ["gate"])]
impl Gate {
    #[init]
    fn new() -> Self {
        Self
    }
}
