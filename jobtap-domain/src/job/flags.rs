//! The flags that a submission has besides its jobspec.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Submit flags: the `flags` of the `submit` event (RFC 21). Serialized as an integer.
///
/// ```
/// use jobtap_core::job::Flags;
///
/// let flags: Flags = "debug,waitable".parse()?;
/// assert!(flags.contains(Flags::DEBUG));
/// assert_eq!(flags.bits(), 6);
/// # Ok::<(), jobtap_core::job::FlagsError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Flags(u32);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Record extra `debug.*` events.
    pub const DEBUG: Self = Self(2);
    /// Keep the result until the submitter has waited for the job.
    pub const WAITABLE: Self = Self(4);
    /// Skip the jobspec validator.
    pub const NOVALIDATE: Self = Self(8);

    const NAMES: [(Self, &'static str); 3] =
        [(Self::DEBUG, "debug"), (Self::WAITABLE, "waitable"), (Self::NOVALIDATE, "novalidate")];

    /// The flags with these bits.
    ///
    /// # Errors
    /// [`FlagsError::UnknownBits`] if there is any other bit. Flux's bit 1, "pre-signed", is used only
    /// inside of its client.
    pub fn from_bits(bits: u32) -> Result<Self, FlagsError> {
        let known = Self::NAMES.iter().fold(0, |all, (flag, _)| all | flag.0);
        if bits & !known == 0 { Ok(Self(bits)) } else { Err(FlagsError::UnknownBits(bits)) }
    }

    /// The bits, as in the `submit` event.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl TryFrom<u32> for Flags {
    type Error = FlagsError;

    fn try_from(bits: u32) -> Result<Self, FlagsError> {
        Self::from_bits(bits)
    }
}

impl From<Flags> for u32 {
    fn from(flags: Flags) -> Self {
        flags.0
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for Flags {
    type Err = FlagsError;

    /// Reads names that are separated by commas. The empty string means no flags.
    fn from_str(text: &str) -> Result<Self, FlagsError> {
        let mut flags = Self::NONE;
        for word in text.split(',').filter(|_| !text.is_empty()) {
            flags |= Self::NAMES
                .iter()
                .find(|(_, name)| *name == word)
                .map(|&(flag, _)| flag)
                .ok_or_else(|| FlagsError::UnknownName(word.to_owned()))?;
        }
        Ok(flags)
    }
}

/// Why bits or a text are not submit flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagsError {
    /// A bit that no flag has.
    #[error("invalid job flags {0}: the known bits are 2, 4 and 8")]
    UnknownBits(u32),
    /// A name that no flag has.
    #[error("Unknown flag {0}: use debug, waitable or novalidate")]
    UnknownName(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_a_list_of_names() {
        assert_eq!("".parse(), Ok(Flags::NONE));
        assert_eq!("novalidate,debug".parse(), Ok(Flags::DEBUG | Flags::NOVALIDATE));
        assert_eq!((Flags::DEBUG | Flags::NOVALIDATE).to_string(), "debug,novalidate");
        for (text, word) in [("signed", "signed"), ("debug,", ""), ("Debug", "Debug")] {
            assert_eq!(text.parse::<Flags>(), Err(FlagsError::UnknownName(word.to_owned())));
        }
    }

    #[test]
    fn refuses_unknown_bits() {
        for bits in [1, 16, 1 << 31, 3] {
            assert_eq!(Flags::from_bits(bits), Err(FlagsError::UnknownBits(bits)));
        }
        assert!(serde_json::from_str::<Flags>("1").is_err());
        assert!(serde_json::from_str::<Flags>("-2").is_err());
    }

    proptest! {
        #[test]
        fn text_and_json_round_trip(bits in 0..8u32) {
            let flags = Flags::from_bits(bits << 1).unwrap();
            prop_assert_eq!(flags.to_string().parse(), Ok(flags));
            let json = serde_json::to_string(&flags).unwrap();
            prop_assert_eq!(serde_json::from_str::<Flags>(&json).unwrap(), flags);
        }

        #[test]
        fn text_is_parsed_or_its_unknown_name_reported(
            text in "\\PC*|((debug|waitable|novalidate|x),?){0,4}",
        ) {
            match text.parse::<Flags>() {
                Ok(flags) => prop_assert_eq!(flags.to_string().parse(), Ok(flags)),
                Err(FlagsError::UnknownName(word)) => {
                    prop_assert!(text.split(',').any(|part| part == word), "{}", word);
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }
}
