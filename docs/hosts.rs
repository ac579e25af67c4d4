//! The table of what each host supports, generated from the one that the builder and the hosts' adapters use.

use std::fmt::Write as _;

use jobtap_core::host::{CALL_OFFERS, HostKind, Offer, Offers, SERVICE_OFFERS, TOPIC_OFFERS};

/// The hosts other than our manager, with their column headings.
const HOSTS: [(HostKind, &str); 3] = [
    (HostKind::Flux, "Flux"),
    (HostKind::SlurmSubmit, "Slurm, job_submit"),
    (HostKind::SlurmPrep, "Slurm, PrEp"),
];

/// The footnotes, which cells reference by number.
#[derive(Default)]
struct Notes(Vec<&'static str>);

impl Notes {
    /// The number of a text, from 1.
    fn number(&mut self, text: &'static str) -> usize {
        let known = self.0.iter().position(|known| *known == text);
        known.unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        }) + 1
    }

    fn cell(&mut self, offer: Offer) -> String {
        match offer {
            Offer::Full => "yes".to_owned(),
            Offer::With(text) => format!("yes ({})", self.number(text)),
            Offer::Missing(text) => format!("– ({})", self.number(text)),
        }
    }

    fn row(&mut self, text: &mut String, name: &str, offers: Offers) {
        let cells = HOSTS.map(|(host, _)| self.cell(offers.for_host(host)));
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
}

fn head(first: &str) -> String {
    let names = HOSTS.map(|(_, name)| name).join(" | ");
    format!("| {first} | {names} |\n|---|---|---|---|\n")
}

/// Returns the text of the chapter.
pub fn chapter() -> String {
    let mut notes = Notes::default();
    let mut topics = head("topic");
    for row in TOPIC_OFFERS {
        notes.row(&mut topics, &format!("`{}`", row.id.name()), row.offers);
        let waits = |host: HostKind| host.async_topic(row.id);
        let differs = HOSTS.iter().any(|(host, _)| waits(*host) != host.topic(row.id));
        if differs {
            let offers = Offers {
                flux: waits(HostKind::Flux),
                submit: waits(HostKind::SlurmSubmit),
                prep: waits(HostKind::SlurmPrep),
            };
            notes.row(&mut topics, &format!("`{}`, `async fn`", row.id.name()), offers);
        }
    }
    notes.row(&mut topics, "services", SERVICE_OFFERS);
    let mut calls = head("call");
    for row in CALL_OFFERS {
        notes.row(&mut calls, &format!("`{}`", row.name), row.offers);
    }
    let mut list = String::new();
    for (index, text) in notes.0.iter().enumerate() {
        let _ = writeln!(list, "{}. {text}", index + 1);
    }
    format!(
        "# What each host serves\n\n\
         <!-- Generated. `UPDATE_DOCS=1 cargo test -p jobtap-guide` writes it again. -->\n\n\
         Jobtap's own manager serves every topic and every call. A Flux and a Slurm serve what their\n\
         interfaces for plugins offer. `jobtap build --host HOST` reads the same table: it refuses a plugin that\n\
         needs more before it compiles anything, and names each place. It sees the calls of the whole crate, also in\n\
         functions beside the plugin and in closures of `Remote`. A call that it can't see, as in another crate, is\n\
         refused when it is made, with `CallError::NotServed` and a line in the log, and fails\n\
         [a test over that host](testing.md#over-each-host).\n\n\
         *yes* means as in jobtap's manager. The numbers lead to the differences and reasons below.\n\n\
         {topics}\n\
         ## Calls that change something or wait\n\n\
         Reads, timers, processes, messages to the log, and calls of authors' own topics are served everywhere.\n\n\
         {calls}\n\
         ## Differences and reasons\n\n\
         {list}\n\
         {EQUAL}"
    )
}

/// The table that a test of the real hosts expects; the test fails if the chapter's differs.
const EQUAL: &str = "\
## The same jobs in each host

`deadline`, `ceiling` and `scratch` of `examples/` are built for each host, as they are. `ceiling` allows 4 tasks and 10
minutes; `scratch` runs a program before a job, which fails for the last one. The test
`the_same_jobs_get_the_same_verdicts_in_every_host` submits these jobs to jobtap's manager, to a real Flux and to a real
Slurm:

| job | what became of it | in |
|---|---|---|
| small (`-n1 -t1`) | ran after its prolog, with the priority of a deadline in 24 h | jobtap, Flux, Slurm |
| at the limits (`-n4 -t10`) | ran after its prolog, with the priority of a deadline in 24 h | jobtap, Flux, Slurm |
| too many tasks (`-n5 -t1`) | refused: `ceiling: 5 tasks, at most 4 are allowed` | jobtap, Flux, Slurm |
| too long (`-n1 -t11`) | refused: `ceiling: a time limit of 660 s, at most 600 s are allowed` | jobtap, Flux, Slurm |
| without its directory (`-n2 -t1`) | its prolog failed, and it was not started | jobtap, Flux, Slurm |
";

#[cfg(test)]
mod tests {
    #[test]
    fn the_chapter_agrees_with_the_code() {
        crate::generated::agrees("hosts.md", &super::chapter());
    }
}
