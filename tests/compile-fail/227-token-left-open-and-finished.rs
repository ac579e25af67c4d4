//! A prolog that is left open is not finished, too.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Gate {
    open: Option<Token>,
}

#[jobtap_plugin(name = "gate")]
impl Gate {
    #[on("unload")]
    fn unload(&mut self, cx: Cx<'_, Unload>) {
        if let Some(token) = self.open.take() {
            cx.leave_open(token);
            token.finish(1);
        }
    }
}

fn main() {}
