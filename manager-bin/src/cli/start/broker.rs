//! The options of `start` for the brokers of a Flux instance. This manager is a single process: the options have no
//! effect, except that it refuses the values that Flux refuses.

use jobtap_core::job::Fsd;

use crate::cli::common::message::CliError;

/// The options that require `--test-size`.
#[derive(Debug, Default, clap::Args)]
pub(super) struct TestOptions {
    /// Accepted without effect: how long to wait for the other brokers to exit
    #[arg(long, value_name = "FSD", hide = true)]
    test_exit_timeout: Option<String>,
    /// Accepted without effect: which broker determines the exit code
    #[arg(long, value_name = "any|leader", hide = true)]
    test_exit_mode: Option<String>,
    /// Accepted without effect: which brokers are started
    #[arg(long, value_name = "all|leader", hide = true)]
    test_start_mode: Option<String>,
    /// Accepted without effect: how brokers find each other
    #[arg(long, value_name = "MODE", hide = true)]
    test_pmi_clique: Option<String>,
}

impl TestOptions {
    /// Checks the options. `sized` says whether `--test-size` is given.
    pub(super) fn check(&self, sized: bool) -> Result<(), CliError> {
        let given = [
            ("test-exit-timeout", &self.test_exit_timeout),
            ("test-exit-mode", &self.test_exit_mode),
            ("test-start-mode", &self.test_start_mode),
            ("test-pmi-clique", &self.test_pmi_clique),
        ];
        if let Some((option, _)) = given.iter().find(|(_, value)| value.is_some() && !sized) {
            return Err(CliError::failure(format!("--{option} only works with --test-size")));
        }
        one_of("test-exit-mode", self.test_exit_mode.as_deref(), &["any", "leader"])?;
        one_of("test-start-mode", self.test_start_mode.as_deref(), &["all", "leader"])?;
        match self.test_exit_timeout.as_deref().map(str::parse::<Fsd>) {
            Some(Err(error)) => Err(CliError::failure(format!("--test-exit-timeout: {error}"))),
            _ => Ok(()),
        }
    }
}

fn one_of(option: &str, value: Option<&str>, known: &[&str]) -> Result<(), CliError> {
    match value {
        Some(value) if !known.contains(&value) => {
            Err(CliError::failure(format!("unknown --{option}: {value}")))
        }
        _ => Ok(()),
    }
}

/// The attributes `ATTR=VAL` that `--broker-opts=LIST` sets. Other options of brokers are refused.
pub(super) fn broker_attributes(lists: &[String]) -> Result<Vec<String>, CliError> {
    let mut attributes = Vec::new();
    for word in lists.iter().flat_map(|list| list.split(',')).filter(|word| !word.is_empty()) {
        let attribute = word.strip_prefix("--setattr=").or_else(|| word.strip_prefix("-S"));
        let Some(attribute) = attribute.filter(|text| text.contains('=')) else {
            let text = format!("--broker-opts: {word}: only -SATTR=VAL is supported");
            return Err(CliError::failure(text));
        };
        attributes.push(attribute.to_owned());
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: &TestOptions, sized: bool) -> Option<String> {
        options.check(sized).err().map(|error| error.text)
    }

    #[test]
    fn modes_are_those_of_flux_and_require_a_size() {
        let mode = |mode: &str| TestOptions {
            test_exit_mode: Some(mode.to_owned()),
            ..TestOptions::default()
        };
        assert_eq!(refusal(&mode("leader"), true), None);
        assert_eq!(refusal(&mode("x"), true).unwrap(), "unknown --test-exit-mode: x");
        let text = "--test-exit-mode only works with --test-size";
        assert_eq!(refusal(&mode("any"), false).unwrap(), text);
        let timeout =
            TestOptions { test_exit_timeout: Some("x".to_owned()), ..TestOptions::default() };
        assert!(refusal(&timeout, true).unwrap().starts_with("--test-exit-timeout: "));
    }

    #[test]
    fn attributes_are_accepted_in_both_spellings() {
        let lists = ["-Sstatedir=/a,--setattr=b=1".to_owned(), ",-Sc=2".to_owned()];
        assert_eq!(broker_attributes(&lists).unwrap(), ["statedir=/a", "b=1", "c=2"]);
        assert!(broker_attributes(&["-v".to_owned()]).is_err());
    }
}
