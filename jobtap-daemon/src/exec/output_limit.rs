//! The limit on the output that is kept of a job without an output file (shell option `output.limit`,
//! `exec.output-limit`).

use serde_json::Value;

/// The highest limit, as in Flux.
const HIGHEST: u64 = 1 << 30;

/// The default limit of a manager that guests may use. The default of other managers is the highest limit.
const WITH_GUESTS: u64 = 10 << 20;

const KEY: &str = "exec.output-limit";

/// The highest limit.
pub(super) fn highest() -> u64 {
    HIGHEST
}

/// Parses a limit in bytes: a number, or a text such as `10M` or `1.5k` with units that are powers of 1024.
pub(super) fn parse(value: &Value) -> Option<u64> {
    let bytes = match value.as_str() {
        None => value.as_u64()?,
        Some(text) => {
            let scales = [('k', 10), ('K', 10), ('M', 20), ('G', 30)];
            let scaled = scales.into_iter().find_map(|(letter, bits)| {
                text.strip_suffix(letter).map(|digits| (digits, 1_u64 << bits))
            });
            let (digits, scale) = scaled.unwrap_or((text, 1));
            let bytes = digits.parse::<f64>().ok()? * scale as f64;
            // Checked before the conversion, which is exact for whole numbers of this size.
            (bytes >= 1.0 && bytes <= HIGHEST as f64).then_some(bytes as u64)?
        }
    };
    (1..=HIGHEST).contains(&bytes).then_some(bytes)
}

/// A limit as users write it.
pub(super) fn text(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "k")];
    let unit = units.into_iter().find(|(bits, _)| bytes.is_multiple_of(1 << bits) && bytes > 0);
    unit.map_or_else(|| bytes.to_string(), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

/// A value of the key that is not a size from 1 to 1G.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{KEY}: must be a size from 1 to 1G, such as \"10M\", not {0}")]
pub struct OutputLimitError(Value);

/// The limit of jobs without the shell option in `config`, the whole configuration.
///
/// # Errors
/// [`OutputLimitError`] if the value can't be used.
pub(crate) fn of_config(config: &Value) -> Result<u64, OutputLimitError> {
    let guests = config.pointer("/access/allow-guest-user") == Some(&Value::Bool(true));
    match config.pointer("/exec/output-limit") {
        None if guests => Ok(WITH_GUESTS),
        None => Ok(HIGHEST),
        Some(value) => parse(value).ok_or_else(|| OutputLimitError(value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_size() {
        for (value, bytes) in [
            (json!(40), Some(40)),
            (json!("40"), Some(40)),
            (json!("1.5k"), Some(1536)),
            (json!("10M"), Some(10 << 20)),
            (json!("1G"), Some(1 << 30)),
            (json!("1.01G"), None),
            (json!(0), None),
            (json!("0"), None),
            (json!(-1), None),
            (json!("1x"), None),
            (json!("nan"), None),
            (json!(true), None),
        ] {
            assert_eq!(parse(&value), bytes, "{value}");
        }
        assert_eq!([40, 1536, 10 << 20, 1 << 30].map(text), ["40", "1536", "10M", "1G"]);
    }

    #[test]
    fn a_manager_that_guests_use_keeps_less_output() {
        assert_eq!(of_config(&json!({})), Ok(1 << 30));
        assert_eq!(of_config(&json!({"access": {"allow-guest-user": true}})), Ok(10 << 20));
        assert_eq!(of_config(&json!({"exec": {"output-limit": "2k"}})), Ok(2048));
        let refused = of_config(&json!({"exec": {"output-limit": "all"}})).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "exec.output-limit: must be a size from 1 to 1G, such as \"10M\", not \"all\""
        );
    }
}
