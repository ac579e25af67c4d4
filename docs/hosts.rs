//! The table of what each host serves, made from the table that the builder and the hosts' adapters use.

use std::fmt::Write as _;

use jobtap_core::host::{CALL_OFFERS, HostKind, Offer, Offers, SERVICE_OFFERS, TOPIC_OFFERS};

/// The hosts beside our manager, with their columns' heads.
const HOSTS: [(HostKind, &str); 3] = [
    (HostKind::Flux, "Flux"),
    (HostKind::SlurmSubmit, "Slurm, job_submit"),
    (HostKind::SlurmPrep, "Slurm, PrEp"),
];

/// The texts below the table, which its cells name by their numbers.
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
        let cells = HOSTS.map(|(host, _)| self.cell(offers.of(host)));
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
         needs more before it compiles anything, topic by topic. A call that it can't see in the source of a\n\
         handler is refused when it is made, with `CallError::NotServed`.\n\n\
         *yes* means as in jobtap's manager. The numbers lead to the differences and reasons below.\n\n\
         {topics}\n\
         ## Calls that change something\n\n\
         Reads, timers, processes, messages to the log, and calls of authors' own topics are served everywhere.\n\n\
         {calls}\n\
         ## Differences and reasons\n\n\
         {list}"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_chapter_agrees_with_the_code() {
        crate::generated::agrees("hosts.md", &super::chapter());
    }
}
