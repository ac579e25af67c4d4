//! Formats numbers as Python does, since format strings of users and scripts that read the output rely on it.
//!
//! Rust's own formatting has neither `%g` nor exponents with a sign and two digits.

/// The shortest text that parses as the same number: `300.0`, `0.2`, `1e-05`, `1e+16`.
pub(super) fn shortest(value: f64) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let (digits, exponent) = split_exponent(&format!("{value:e}"));
    if (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        with_exponent(&digits, exponent)
    }
}

/// `%.{precision}f`.
pub(super) fn fixed(value: f64, precision: usize) -> String {
    not_finite(value).map_or_else(|| format!("{value:.precision$}"), str::to_owned)
}

/// `%.{precision}e`.
pub(super) fn exponential(value: f64, precision: usize) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let (digits, exponent) = split_exponent(&format!("{value:.precision$e}"));
    with_exponent(&digits, exponent)
}

/// `%.{precision}g`: `precision` significant digits without trailing zeros.
pub(super) fn general(value: f64, precision: usize) -> String {
    general_below(value, precision, precision.max(1))
}

/// Python's notation for a precision without a type: like [`general`], but integers end in `.0`.
pub(super) fn general_float(value: f64, precision: usize) -> String {
    let text = general_below(value, precision, precision.max(1).saturating_sub(1).max(1));
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '-');
    if plain { text + ".0" } else { text }
}

/// Formats significant digits: in plain notation if the decimal exponent is in `-4..limit`, otherwise with an
/// exponent.
fn general_below(value: f64, precision: usize, limit: usize) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let last = precision.max(1).saturating_sub(1);
    // As in C, the exponent after rounding counts: 9999.9 with four digits is 1e+04.
    let (digits, exponent) = split_exponent(&format!("{value:.last$e}"));
    let plain = exponent >= -4 && usize::try_from(exponent).unwrap_or(0) < limit;
    if !plain {
        return with_exponent(trim_zeros(&digits), exponent);
    }
    let decimals = i64::try_from(last).unwrap_or(i64::MAX).saturating_sub(exponent.into());
    let decimals = usize::try_from(decimals).unwrap_or(0);
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Separates groups of `group` digits: `1234567` becomes `1,234,567`. Sign, fraction and exponent remain unchanged.
pub(super) fn grouped(text: &str, separator: char, group: usize) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    // Numbers in other bases have no fraction, and their digits may be letters.
    let decimal_len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let whole_len = if group == 3 { decimal_len } else { rest.len() };
    let (whole, fraction) = rest.split_at(whole_len);
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(group) {
            out.push(separator);
        }
        out.push(digit);
    }
    out + fraction
}

fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        v if v.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

/// Splits Rust's `1.5e-7` into `1.5` and -7.
fn split_exponent(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn trim_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortest_formats_as_python_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (300.0, "300.0"),
            (0.2, "0.2"),
            (-1.5, "-1.5"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
            (1700000000.25, "1700000000.25"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }

    #[test]
    fn general_drops_zeros_and_switches_to_exponents() {
        for (value, precision, text) in [
            (62.5, 4, "62.5"),
            (1.0333333, 4, "1.033"),
            (100.0, 4, "100"),
            (12345.0, 4, "1.234e+04"),
            (0.00001, 4, "1e-05"),
            (9999.9, 4, "1e+04"),
            (5.0, 0, "5"),
        ] {
            assert_eq!(general(value, precision), text);
        }
        assert_eq!(general_float(5.0, 3), "5.0");
        assert_eq!(general_float(123.0, 3), "1.23e+02");
        assert_eq!(general_float(1.25, 2), "1.2");
        assert_eq!(exponential(12345.678, 2), "1.23e+04");
        assert_eq!(fixed(2.0, 3), "2.000");
    }

    #[test]
    fn thousands_are_separated_in_the_integer_part_only() {
        assert_eq!(grouped("-1234567.1234", ',', 3), "-1,234,567.1234");
        assert_eq!(grouped("123", ',', 3), "123");
        assert_eq!(grouped("1e+16", ',', 3), "1e+16");
        assert_eq!(grouped("1abcde", '_', 4), "1a_bcde");
    }

    proptest! {
        #[test]
        fn shortest_round_trips(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            prop_assert_eq!(shortest(value).parse::<f64>().unwrap(), value);
        }

        #[test]
        fn every_notation_parses_to_its_precision(
            value in any::<f64>().prop_filter("finite", |v| v.is_finite()),
            precision in 0usize..2000,
        ) {
            let digits = |text: &str, least: usize| {
                // The error is at most half of the last significant digit.
                let error = (text.parse::<f64>().unwrap() - value).abs();
                error <= 0.51 * 10f64.powi(1 - least.min(400) as i32) * value.abs().max(f64::MIN_POSITIVE) * 10.0
            };
            let significant = precision.max(1);
            prop_assert!(digits(&exponential(value, precision), precision + 1));
            prop_assert!(digits(&general(value, precision), significant));
            prop_assert!(digits(&general_float(value, precision), significant));
            let fixed = fixed(value, precision);
            let decimals = fixed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            prop_assert_eq!(decimals, precision);
        }
    }
}
