//! The scripts that the outer job managers run. Each has the invitation of its allocation in a here-document, so that it is
//! neither on a command line nor in an environment.

use super::outer::Order;

/// The word that ends the here-document. An invitation is JSON of one line.
const END: &str = "END-OF-INVITATION";

/// The arguments of a node's process that reads its invitation from its standard input.
const JOIN: &str = "allocation join -";

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// This program.
pub(super) fn program() -> String {
    let own = std::env::current_exe().ok();
    own.map_or_else(|| "jobtap".to_owned(), |path| path.display().to_string())
}

/// The script of a job of Slurm: it starts a process on each node.
pub(super) fn of_slurm(order: &Order) -> String {
    let Order { nodes, cores, .. } = order;
    // Each word that the script's own environment could change is said here. Where the options of the table have made the
    // nodes smaller, they start all the same, and the manager says what is wrong.
    let prepare = format!(
        "cpus=${{SLURM_JOB_CPUS_PER_NODE%%[(,]*}}\n[ \"$cpus\" -lt {cores} ] || cpus={cores}\n"
    );
    let srun = format!(
        "srun --overlap --mpi=none --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task=\"$cpus\" \
         --kill-on-bad-exit=0 --wait=0 --input=all"
    );
    script(order, &prepare, &srun)
}

/// A script that runs once on each node of an allocation.
pub(super) fn of_each_node(order: &Order) -> String {
    script(order, "", "")
}

fn script(order: &Order, prepare: &str, launcher: &str) -> String {
    let (name, invitation) = (&order.name, &order.invitation);
    let line = format!("{launcher} {} {JOIN}", quoted(&program()));
    format!(
        "#!/bin/sh\n# {name}: its nodes join the manager that has ordered them.\n{prepare}exec {} <<'{END}'\n{invitation}\n{END}\n",
        line.trim_start()
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_script_hands_the_invitation_over_as_it_is() {
        let invitation = r#"{"secret":"$HOME `x` \\ \"'\""}"#;
        let order = Order {
            name: "jobtap-ab-3".to_owned(),
            options: Vec::new(),
            nodes: 1,
            cores: 1,
            gpus: 0,
            time_limit: None,
            invitation: invitation.to_owned(),
        };
        let text = of_each_node(&order);
        let echo = text.replace(&format!("{} {JOIN}", quoted(&program())), "cat");
        let ran = Command::new("sh").args(["-c", &echo]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), invitation, "{echo}");
        assert!(of_slurm(&order).contains("\nexec srun --overlap "));
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("a b's"), r"'a b'\''s'");
    }
}
