//! The format specification after the colon of a field, and its application to a value:
//! `[[fill]align][sign][#][0][width][grouping][.precision][type]` as in Python, with the suffixes `h` and `+` of
//! Flux.

use super::error::SpecificationFault;
use super::number;
use super::value::FieldValue;

/// The maximum of widths and precisions: wider than any terminal, and small enough that a typing error
/// doesn't exhaust memory.
const LIMIT: usize = 10_000;

/// How a text that is shorter than its column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    Center,
    /// The padding is between the sign and the digits.
    AfterSign,
}

impl Align {
    /// The alignment that the character `c` denotes.
    pub(super) fn from_char(c: char) -> Option<Self> {
        match c {
            '<' => Some(Align::Left),
            '>' => Some(Align::Right),
            '^' => Some(Align::Center),
            '=' => Some(Align::AfterSign),
            _ => None,
        }
    }

    /// Pads `text` with `fill` to `width` characters.
    pub(super) fn pad(self, text: &str, fill: char, width: usize) -> String {
        let missing = width.saturating_sub(text.chars().count());
        let padding = |n: usize| -> String { std::iter::repeat_n(fill, n).collect() };
        match self {
            Align::Left => format!("{text}{}", padding(missing)),
            Align::Right => format!("{}{text}", padding(missing)),
            Align::Center => {
                let before = missing / 2;
                format!("{}{text}{}", padding(before), padding(missing - before))
            }
            Align::AfterSign => {
                let digits = text.trim_start_matches(['+', '-', ' ']);
                let sign = text.strip_suffix(digits).unwrap_or_default();
                format!("{sign}{}{digits}", padding(missing))
            }
        }
    }
}

/// A parsed format specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) fill: Option<char>,
    pub(super) align: Option<Align>,
    /// The sign of numbers ≥ 0: `+` or a space.
    pub(super) sign: Option<char>,
    /// Integers have a prefix, such as `0x`.
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) width: usize,
    /// The separator of groups of digits: `,` or `_`.
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
    /// The suffix `h`: an empty value is shown as `-`.
    pub(super) hyphen: bool,
    /// The suffix `+`: a truncated value ends in `+`.
    pub(super) mark_truncated: bool,
}

impl Spec {
    /// Parses the text between the colon and the closing brace.
    pub(super) fn parse(text: &str) -> Result<Self, SpecificationFault> {
        let mut spec = Spec::default();
        // Flux's suffixes come first: what remains is a specification of Python.
        let rest = text.strip_suffix('+').inspect(|_| spec.mark_truncated = true).unwrap_or(text);
        let rest = rest.strip_suffix('h').inspect(|_| spec.hyphen = true).unwrap_or(rest);
        let rest = spec.take_alignment(rest);
        let rest = take(rest, &['+', '-', ' '], |c| spec.sign = Some(c).filter(|c| *c != '-'));
        let rest = take(rest, &['#'], |_| spec.alternate = true);
        let rest = take(rest, &['0'], |_| spec.zero = true);
        let (width, rest) = take_number(rest)?;
        spec.width = width.unwrap_or(0);
        let rest = take(rest, &[',', '_'], |c| spec.grouping = Some(c));
        let rest = match rest.strip_prefix('.') {
            Some(rest) => {
                let (precision, rest) = take_number(rest)?;
                spec.precision = Some(precision.ok_or(SpecificationFault::NoPrecision)?);
                rest
            }
            None => rest,
        };
        // Whether the type is valid depends on the value that is formatted.
        let mut kinds = rest.chars();
        spec.kind = kinds.next();
        match kinds.next() {
            None => Ok(spec),
            Some(_) => Err(SpecificationFault::Invalid(text.to_owned())),
        }
    }

    fn take_alignment<'a>(&mut self, text: &'a str) -> &'a str {
        let mut chars = text.chars();
        let (first, second) = (chars.next(), chars.next());
        if let (Some(fill), Some(align)) = (first, second.and_then(Align::from_char)) {
            self.fill = Some(fill);
            self.align = Some(align);
            return chars.as_str();
        }
        take(text, &['<', '>', '^', '='], |c| self.align = Align::from_char(c))
    }

    /// The specification for the heading of a column with this specification.
    pub(super) fn heading(&self) -> Spec {
        let align = self.align.filter(|align| *align != Align::AfterSign);
        Spec { align, width: self.width, ..Spec::default() }
    }

    /// The specification without width and truncation, to measure the full values of a widened column.
    pub(super) fn unbounded(&self) -> Spec {
        let text = matches!(self.kind, None | Some('s'));
        let mut spec = Spec { width: 0, mark_truncated: false, ..self.clone() };
        if text {
            spec.precision = None;
        }
        spec
    }

    /// Formats `value`.
    ///
    /// An empty value is padded as text, whatever the type: a number that isn't known yet must not make the
    /// format fail.
    pub(super) fn apply(&self, value: &FieldValue) -> Result<String, SpecificationFault> {
        if self.hyphen && is_empty(value) {
            return Ok(self.pad_placeholder("-"));
        }
        let mut shown = match value {
            // As in Python, a value of these types is shown as its text if there is no specification.
            FieldValue::Bool(_) | FieldValue::JobId { .. } if self.is_plain() => {
                return Ok(value.text());
            }
            FieldValue::Bool(b) if !self.hyphen_text() => self.apply_int((*b).into(), "bool"),
            FieldValue::JobId { number, .. } if !self.hyphen_text() => {
                self.apply_int((*number).into(), "JobID")
            }
            FieldValue::Int(i) if !self.hyphen_text() => self.apply_int(*i, "int"),
            FieldValue::Float(f) if !self.hyphen_text() => self.apply_float(*f, "float"),
            FieldValue::Text(t) if t.is_empty() => Ok(self.pad_placeholder("")),
            _ => self.apply_text(&value.text()),
        }?;
        if self.mark_truncated && shown.chars().count() < value.text().chars().count() {
            shown.pop();
            shown.push('+');
        }
        Ok(shown)
    }

    /// Whether the specification is empty without Flux's suffixes, as Python would see it.
    fn is_plain(&self) -> bool {
        Spec { mark_truncated: false, ..self.clone() } == Spec::default()
    }

    /// Pads the text for a missing value. It is aligned like values of this type, but never filled with
    /// zeros.
    fn pad_placeholder(&self, text: &str) -> String {
        let number = !matches!(self.kind, None | Some('s'));
        let default = if number { Align::Right } else { Align::Left };
        let align = self.align.filter(|align| *align != Align::AfterSign).unwrap_or(default);
        Spec { align: Some(align), fill: self.fill, width: self.width, ..Spec::default() }
            .pad(text, default)
    }

    /// Returns true if numbers are formatted as text, which the suffix `h` does, so that they and `-` have
    /// the same alignment.
    fn hyphen_text(&self) -> bool {
        self.hyphen && matches!(self.kind, None | Some('s'))
    }

    fn apply_text(&self, text: &str) -> Result<String, SpecificationFault> {
        match self.kind {
            None | Some('s') => {}
            Some(kind) => return Err(unknown_code(kind, "str")),
        }
        if self.sign.is_some() {
            return Err(SpecificationFault::SignOfText);
        }
        if let Some(grouping) = self.grouping {
            return Err(SpecificationFault::Grouping { grouping, code: 's' });
        }
        if self.alternate {
            return Err(SpecificationFault::AlternateText);
        }
        if self.align == Some(Align::AfterSign) {
            return Err(SpecificationFault::AlignmentOfText);
        }
        Ok(self.pad(&self.truncate(text), Align::Left))
    }

    fn truncate(&self, text: &str) -> String {
        let Some(precision) = self.precision else {
            return text.to_owned();
        };
        text.chars().take(precision).collect()
    }

    fn apply_int(&self, value: i128, type_name: &str) -> Result<String, SpecificationFault> {
        if matches!(self.kind, Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) {
            return self.apply_float(value as f64, type_name);
        }
        if self.precision.is_some() {
            return Err(SpecificationFault::PrecisionOfInteger);
        }
        let sign = if value < 0 { "-" } else { "" };
        let magnitude = value.unsigned_abs();
        let (prefix, digits) = match self.kind {
            None | Some('d' | 'n') => ("", magnitude.to_string()),
            Some('b') => ("0b", format!("{magnitude:b}")),
            Some('o') => ("0o", format!("{magnitude:o}")),
            Some('x') => ("0x", format!("{magnitude:x}")),
            Some('X') => ("0X", format!("{magnitude:X}")),
            Some(kind) => return Err(unknown_code(kind, type_name)),
        };
        // Digits of other bases than ten are in groups of four.
        let group = if prefix.is_empty() { 3 } else { 4 };
        let digits = match (self.grouping, self.kind) {
            (Some(grouping), Some(kind)) if kind == 'n' || (grouping == ',' && group == 4) => {
                return Err(SpecificationFault::Grouping { grouping, code: kind });
            }
            (Some(grouping), _) => number::grouped(&digits, grouping, group),
            (None, _) => digits,
        };
        let prefix = if self.alternate { prefix } else { "" };
        Ok(self.finish_number(format!("{sign}{prefix}{digits}")))
    }

    fn apply_float(&self, value: f64, type_name: &str) -> Result<String, SpecificationFault> {
        let precision = self.precision.unwrap_or(6);
        let text = match self.kind {
            None => match self.precision {
                None => number::shortest(value),
                Some(precision) => number::general_float(value, precision),
            },
            Some('f') => number::fixed(value, precision),
            Some('F') => number::fixed(value, precision).to_uppercase(),
            Some('e') => number::exponential(value, precision),
            Some('E') => number::exponential(value, precision).to_uppercase(),
            Some('g' | 'n') => number::general(value, precision),
            Some('G') => number::general(value, precision).to_uppercase(),
            Some('%') => number::fixed(value * 100.0, precision) + "%",
            Some(kind) => return Err(unknown_code(kind, type_name)),
        };
        Ok(self.finish_number(match self.grouping {
            Some(grouping) => number::grouped(&text, grouping, 3),
            None => text,
        }))
    }

    fn finish_number(&self, mut text: String) -> String {
        if let (Some(sign), false) = (self.sign, text.starts_with('-')) {
            text.insert(0, sign);
        }
        self.pad(&text, Align::Right)
    }

    fn pad(&self, text: &str, default: Align) -> String {
        let number = default == Align::Right;
        let align = match (self.align, self.zero && number) {
            (Some(align), _) => align,
            (None, true) => Align::AfterSign,
            (None, false) => default,
        };
        let fill = self.fill.unwrap_or(if self.zero { '0' } else { ' ' });
        align.pad(text, fill, self.width)
    }
}

/// Returns true for values that count as empty: the suffix `h` shows them as `-`, and the prefix `?:` drops a column
/// that has no other values. The texts are converted times and durations of zero.
pub(super) fn is_empty(value: &FieldValue) -> bool {
    let empty = ["", "0s", "0.0", "0:00:00", "1970-01-01T00:00:00"];
    match value {
        FieldValue::Bool(_) | FieldValue::Int(_) | FieldValue::JobId { .. } => false,
        FieldValue::Float(f) => *f == 0.0,
        FieldValue::Text(t) => empty.contains(&t.as_str()),
    }
}

fn unknown_code(code: char, type_name: &str) -> SpecificationFault {
    SpecificationFault::UnknownCode { code, type_name: type_name.to_owned() }
}

/// If the first character is one of `wanted`, passes it to `found`. Returns the remaining text.
fn take<'a>(text: &'a str, wanted: &[char], found: impl FnOnce(char)) -> &'a str {
    let mut chars = text.chars();
    match chars.next().filter(|c| wanted.contains(c)) {
        Some(c) => {
            found(c);
            chars.as_str()
        }
        None => text,
    }
}

fn take_number(text: &str) -> Result<(Option<usize>, &str), SpecificationFault> {
    let len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    if digits.is_empty() {
        return Ok((None, rest));
    }
    match digits.parse() {
        Ok(n) if n <= LIMIT => Ok((Some(n), rest)),
        _ => Err(SpecificationFault::TooManyDigits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(spec: &str, value: impl Into<FieldValue>) -> String {
        Spec::parse(spec).unwrap().apply(&value.into()).unwrap()
    }

    fn refusal(spec: &str, value: FieldValue) -> String {
        Spec::parse(spec).and_then(|s| s.apply(&value)).unwrap_err().to_string()
    }

    #[test]
    fn each_alignment_pads_at_its_own_side() {
        for (sign, shown) in [('<', "-5**"), ('>', "**-5"), ('^', "*-5*"), ('=', "-**5")] {
            let shown_by = |align: Align| align.pad("-5", '*', 4);
            assert_eq!(Align::from_char(sign).map(shown_by).as_deref(), Some(shown));
        }
        assert_eq!(Align::Left.pad("long", ' ', 2), "long");
        assert_eq!(Align::from_char('-'), None);
    }

    #[test]
    fn texts_are_padded_and_truncated() {
        assert_eq!(show("<8.8", "a"), "a       ");
        assert_eq!(show(">12", "abc"), "         abc");
        assert_eq!(show("*^7", "abc"), "**abc**");
        assert_eq!(show("<4.4", "abcdef"), "abcd");
        assert_eq!(show("10.4", "äöüßé"), "äöüß      ");
        assert_eq!(show("", "as it is"), "as it is");
    }

    #[test]
    fn plus_suffix_marks_truncated_texts_only() {
        assert_eq!(show("<4.4+", "abcdef"), "abc+");
        assert_eq!(show("<4.4+", "abcd"), "abcd");
        assert_eq!(show(".0+", "abcd"), "+");
        // The width counts: more is shown than the text has characters.
        assert_eq!(
            (show("<10.5+", "abcdefghijkl"), show(">9.2+", "abc")),
            ("abcde    +".into(), "       ab".into())
        );
        assert_eq!(show(">4.4h+", ""), "   -");
        assert_eq!(show(">4.4h+", "abcdef"), "abc+");
    }

    #[test]
    fn ids_and_truth_values_are_numbers_where_they_are_formatted() {
        let show = |spec: &str, value: &FieldValue| Spec::parse(spec).unwrap().apply(value);
        let id = FieldValue::JobId { number: 70_000, text: "ƒx".to_owned() };
        for (spec, shown) in
            [("", "ƒx"), ("+", "ƒx"), (">8", "   70000"), ("_", "70_000"), (">8h", "      ƒx")]
        {
            assert_eq!(show(spec, &id).unwrap(), shown);
        }
        let error = show("s", &id).unwrap_err().to_string();
        assert_eq!(error, "Unknown format code 's' for object of type 'JobID'");
        let yes = FieldValue::Bool(true);
        assert_eq!(
            (show("", &yes).unwrap(), show(">3", &yes).unwrap()),
            ("True".into(), "  1".into())
        );
        assert_eq!(show("#_x", &id).unwrap(), "0x1_1170");
    }

    #[test]
    fn h_suffix_shows_empty_values_as_a_hyphen() {
        for empty in ["", "0s", "0.0", "0:00:00", "1970-01-01T00:00:00"] {
            assert_eq!(show(">3h", empty), "  -");
        }
        assert_eq!(Spec::parse(">4h").unwrap().apply(&FieldValue::Float(0.0)).unwrap(), "   -");
        assert_eq!(Spec::parse(">4h").unwrap().apply(&FieldValue::Int(0)).unwrap(), "   0");
        assert_eq!(Spec::parse("4h").unwrap().apply(&FieldValue::Int(7)).unwrap(), "7   ");
    }

    #[test]
    fn integers_accept_the_types_of_python() {
        let int =
            |spec: &str, i: i128| Spec::parse(spec).unwrap().apply(&FieldValue::Int(i)).unwrap();
        assert_eq!(int(">6", 16), "    16");
        assert_eq!(int("6", 16), "    16");
        assert_eq!(int("06", -16), "-00016");
        assert_eq!(int("+d", 5), "+5");
        assert_eq!(int(",", 1_234_567), "1,234,567");
        assert_eq!(int("x", 255), "ff");
        assert_eq!(int(".1f", 2), "2.0");
    }

    #[test]
    fn floats_accept_the_types_of_python() {
        let float =
            |spec: &str, f: f64| Spec::parse(spec).unwrap().apply(&FieldValue::Float(f)).unwrap();
        assert_eq!(float("", 300.0), "300.0");
        assert_eq!(float("8.2f", 1.256), "    1.26");
        assert_eq!(float(".3g", 1234.0), "1.23e+03");
        assert_eq!(float(".1%", 0.256), "25.6%");
        assert_eq!(float("=+8.1f", 2.0), "+    2.0");
    }

    #[test]
    fn a_mismatched_value_gives_the_error_of_python() {
        let text = FieldValue::from("a");
        for (spec, value, message) in [
            ("d", text.clone(), "Unknown format code 'd' for object of type 'str'"),
            ("+5", text.clone(), "Sign not allowed in string format specifier"),
            (",", text.clone(), "Cannot specify ',' with 's'."),
            ("=5", text.clone(), "'=' alignment not allowed in string format specifier"),
            (".2", FieldValue::Int(1), "Precision not allowed in integer format specifier"),
            ("s", FieldValue::Int(1), "Unknown format code 's' for object of type 'int'"),
            ("d", FieldValue::Float(1.0), "Unknown format code 'd' for object of type 'float'"),
            (".", text.clone(), "Format specifier missing precision"),
            ("y", text.clone(), "Unknown format code 'y' for object of type 'str'"),
            ("5q", FieldValue::Int(1), "Unknown format code 'q' for object of type 'int'"),
            ("name", text.clone(), "Invalid format specifier 'name'"),
            ("99999999999999999999", text, "Too many decimal digits in format string"),
        ] {
            assert_eq!(refusal(spec, value), message);
        }
    }

    #[test]
    fn an_empty_value_in_a_numeric_column_is_blank() {
        assert_eq!(show(">5d", ""), "     ");
        assert_eq!(show("05d", ""), "     ");
        assert_eq!(
            Spec::parse("06.1fh").unwrap().apply(&FieldValue::Float(0.0)).unwrap(),
            "     -"
        );
    }

    #[test]
    fn headings_use_only_alignment_and_width() {
        let heading = Spec::parse(">6.2h+").unwrap().heading();
        assert_eq!(heading.apply(&FieldValue::from("NNODES+")).unwrap(), "NNODES+");
        assert_eq!(heading.apply(&FieldValue::from("A")).unwrap(), "     A");
    }

    proptest! {
        #[test]
        fn formatted_values_have_at_least_the_width(
            spec in ".{0,12}|[*]?[<>^=]?[-+ ]?0?[0-9]{0,3},?(\\.[0-9]{0,2})?[sdboxXneEfFgG%]?h?\\+?",
            text in ".{0,12}", i in any::<i64>(), f in any::<f64>(),
        ) {
            if let Ok(spec) = Spec::parse(&spec) {
                for value in [FieldValue::Text(text), FieldValue::Int(i.into()), FieldValue::Float(f)] {
                    if let Ok(shown) = spec.apply(&value) {
                        prop_assert!(shown.chars().count() >= spec.width);
                    }
                }
            }
        }
    }
}
