//! Python-style slices, with which users select a part of a list.

use std::str::FromStr;

/// `[START:STOP:STEP]`, where each part may be missing, or `[INDEX]`. Negative numbers count from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
}

/// The error for a text that is not a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("could not parse python-style slice expression")]
pub(crate) struct SliceError;

impl FromStr for Slice {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Self, SliceError> {
        let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let part = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse::<i64>().map(Some).map_err(|_| SliceError),
        };
        let parts: Vec<Option<i64>> =
            inner.ok_or(SliceError)?.split(':').map(part).collect::<Result<_, _>>()?;
        match *parts.as_slice() {
            // An index is the slice from this element to the next one.
            [Some(index)] => {
                let next = index.checked_add(1).ok_or(SliceError)?;
                Ok(Self { start: Some(index), stop: Some(next).filter(|next| *next != 0), step: 1 })
            }
            [start, stop] => Ok(Self { start, stop, step: 1 }),
            [start, stop, step] if step != Some(0) => {
                Ok(Self { start, stop, step: step.unwrap_or(1) })
            }
            _ => Err(SliceError),
        }
    }
}

impl Slice {
    /// The selected part of a list. Positions outside of the list are ignored.
    pub(crate) fn select<T: Copy>(self, list: &[T]) -> Vec<T> {
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let (low, high) = if self.step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |index: i64| {
            if index < 0 { index.saturating_add(length) } else { index }.clamp(low, high)
        };
        let (first, last) = if self.step > 0 { (low, high) } else { (high, low) };
        let (mut index, stop) = (self.start.map_or(first, place), self.stop.map_or(last, place));
        let mut taken = Vec::new();
        while (self.step > 0 && index < stop) || (self.step < 0 && index > stop) {
            taken.extend(usize::try_from(index).ok().and_then(|index| list.get(index)).copied());
            index = index.saturating_add(self.step);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn select(text: &str) -> Vec<u8> {
        text.parse::<Slice>().unwrap().select(&[0, 1, 2, 3, 4])
    }

    #[test]
    fn selects_the_same_as_python() {
        assert_eq!(select("[:2]"), [0, 1]);
        assert_eq!(select("[1:3]"), [1, 2]);
        assert_eq!(select("[-2:]"), [3, 4]);
        assert_eq!(select("[:]"), [0, 1, 2, 3, 4]);
        assert_eq!(select("[::-1]"), [4, 3, 2, 1, 0]);
        assert_eq!(select("[3:0:-2]"), [3, 1]);
        assert_eq!(select("[-1]"), [4]);
        assert_eq!(select("[1]"), [1]);
        assert_eq!(select("[::2]"), [0, 2, 4]);
        assert!(select("[7:9]").is_empty());
        assert!(select("[7]").is_empty());
        assert!(select("[3:1]").is_empty());
    }

    #[test]
    fn refuses_text_that_is_not_a_slice() {
        for bad in ["", "x", "2", "[1:2:3:4]", "[::0]", "[a]", "1:2", "[]", "[1", "[1:2]]"] {
            assert_eq!(bad.parse::<Slice>(), Err(SliceError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_slice_keeps_or_reverses_the_order(
            start: Option<i64>, stop: Option<i64>, step in any::<i64>(), n in 0usize..5,
        ) {
            let slice = Slice { start, stop, step: if step == 0 { 1 } else { step } };
            let list: Vec<usize> = (0..n).collect();
            let taken = slice.select(&list);
            let in_order = taken.is_sorted_by(|a, b| if slice.step > 0 { a < b } else { a > b });
            prop_assert!(in_order, "{:?}", taken);
        }

        #[test]
        fn accepted_text_selects_existing_elements(text in "\\PC{0,8}|\\[[-0-9:]{0,8}\\]") {
            if let Ok(slice) = text.parse::<Slice>() {
                let part = |part: Option<i64>| part.map_or(String::new(), |part| part.to_string());
                let (start, stop) = (part(slice.start), part(slice.stop));
                let written = format!("[{start}:{stop}:{}]", slice.step);
                prop_assert_eq!(written.parse(), Ok(slice));
                prop_assert!(slice.step != 0 && text.trim().starts_with('['));
            }
        }
    }
}
