//! The alignment of a text in its column.

/// How a text that is shorter than its column is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    Center,
    /// Padding goes between the sign and the digits.
    AfterSign,
}

impl Align {
    /// The alignment that `c` stands for.
    pub(super) fn from_char(c: char) -> Option<Self> {
        match c {
            '<' => Some(Align::Left),
            '>' => Some(Align::Right),
            '^' => Some(Align::Center),
            '=' => Some(Align::AfterSign),
            _ => None,
        }
    }

    /// `text` with as many `fill` as it takes to be `width` characters wide.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_alignment_has_its_place_for_the_padding() {
        for (sign, shown) in [('<', "-5**"), ('>', "**-5"), ('^', "*-5*"), ('=', "-**5")] {
            let shown_by = |align: Align| align.pad("-5", '*', 4);
            assert_eq!(Align::from_char(sign).map(shown_by).as_deref(), Some(shown));
        }
        assert_eq!(Align::Left.pad("long", ' ', 2), "long");
        assert_eq!(Align::from_char('-'), None);
    }
}
