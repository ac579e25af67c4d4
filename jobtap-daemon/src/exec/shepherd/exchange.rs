//! What a job's tasks on this node tell those on its other nodes, by way of the manager: the values that they have put
//! into PMI's store.
//!
//! A manager that is killed may have sent the combined values to only some nodes; the others still wait for them.
//! So each node keeps what it has sent, and repeats it to the next manager. No node is ahead of another by more than one
//! round, so that the last two rounds are enough.

use jobtap_core::job::JobId;

use super::pmi::Pmi;
use crate::exec::protocol::ShepherdMessage;

/// The exchange of PMI's values between the nodes of a job.
pub(super) struct JobExchange {
    pmi: Pmi,
    sent: Rounds,
}

impl JobExchange {
    pub(super) fn new(pmi: Pmi) -> Self {
        Self { pmi, sent: Rounds::default() }
    }

    /// Begins a round with the values of this node's tasks. Returns the message to the manager.
    pub(super) fn begin(
        &mut self,
        id: JobId,
        round: u32,
        values: Vec<(String, String)>,
    ) -> ShepherdMessage {
        let round = Round { number: round, values, is_over: false };
        let message = round.message(id);
        self.sent.begin(round);
        message
    }

    /// Passes the values of all nodes to the tasks that wait for them.
    pub(super) fn end(&mut self, round: u32, values: Vec<(String, String)>) {
        self.sent.end(round);
        self.pmi.exchanged(round, values);
    }

    /// The messages that another manager may lack.
    pub(super) fn repeated(&self, id: JobId) -> impl Iterator<Item = ShepherdMessage> {
        self.sent.0.iter().map(move |round| round.message(id))
    }
}

/// The last rounds that this node has begun, at most two.
#[derive(Default)]
struct Rounds(Vec<Round>);

struct Round {
    number: u32,
    /// What this node's tasks have put into the store.
    values: Vec<(String, String)>,
    /// Whether the values of all have come.
    is_over: bool,
}

impl Rounds {
    fn begin(&mut self, round: Round) {
        let before = self.0.pop();
        self.0 = before.into_iter().chain([round]).collect();
    }

    fn end(&mut self, number: u32) {
        // All nodes have begun it, so that they have ended those before.
        self.0.retain(|round| round.number >= number);
        let ended = self.0.iter_mut().filter(|round| round.number == number);
        ended.for_each(|round| round.is_over = true);
    }
}

impl Round {
    fn message(&self, id: JobId) -> ShepherdMessage {
        let (round, values, is_over) = (self.number, self.values.clone(), self.is_over);
        ShepherdMessage::Exchange { id, round, values, is_over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_rounds_are_kept_until_they_are_over_everywhere() {
        let mut rounds = Rounds::default();
        let begin = |rounds: &mut Rounds, number| {
            rounds.begin(Round { number, values: Vec::new(), is_over: false });
        };
        let kept = |rounds: &Rounds| -> Vec<(u32, bool)> {
            rounds.0.iter().map(|round| (round.number, round.is_over)).collect()
        };
        begin(&mut rounds, 1);
        rounds.end(1);
        assert_eq!(kept(&rounds), [(1, true)], "another node may not have it yet");
        begin(&mut rounds, 2);
        assert_eq!(kept(&rounds), [(1, true), (2, false)]);
        rounds.end(2);
        assert_eq!(kept(&rounds), [(2, true)]);
    }
}
