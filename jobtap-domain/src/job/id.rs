//! Job ids: FLUIDs (RFC 19), 64-bit numbers that sort by submission time and are unique without a shared counter.
//!
//! Users type and read them in several encodings, so parsing accepts any encoding, but is strict
//! within it.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::emoji;
use super::number_or_text::NumberOrText;

/// The digits of RFC 19's base 58, without `0`, `O`, `I` and `l`, which are easily confused.
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The maximum number of base 58 digits that are accepted, even if leading zeros (`1`) keep the value in range.
const MAX_BASE58_DIGITS: usize = 12;

/// The prefix of an id in base 58.
const F58_PREFIX: char = 'ƒ';

/// The ASCII form of the prefix, for terminals that can't show `ƒ`.
const F58_PLAIN_PREFIX: char = 'f';

/// Whether `Display` writes the ASCII prefix.
static DISPLAY_PLAIN: AtomicBool = AtomicBool::new(false);

/// The id of a job (RFC 19).
///
/// From the most significant bit down, it consists of 40 bits for the milliseconds since the instance started, 14 bits
/// for the generator id and 10 bits for the sequence number. Every `u64` is a valid id; `u64::MAX` is never issued,
/// because it means "any job" in Flux.
///
/// `Display` writes the base 58 form, with `f` instead of `ƒ` once [`JobId::display_plain`] was called. An id is
/// serialized as an integer and deserialized from an integer or from a string in any [`Encoding`].
///
/// ```
/// use jobtap_core::job::{Encoding, JobId};
///
/// let id: JobId = "ƒuzzybunny".parse()?;
/// assert_eq!(id, JobId::new(6787342413402046));
/// assert_eq!(id.encode(Encoding::Kvs), "job.0018.1d0d.4d85.0fbe");
/// # Ok::<(), jobtap_core::job::JobIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The number of bits below the timestamp.
    pub(super) const TIMESTAMP_SHIFT: u32 = 24;

    /// The id with this value.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Milliseconds from the start of the instance's id epoch to the submission.
    #[must_use]
    pub const fn timestamp_ms(self) -> u64 {
        self.0 >> Self::TIMESTAMP_SHIFT
    }

    /// Makes `Display` write ids with `f` instead of `ƒ` in this process, for locales that have no `ƒ`.
    ///
    /// The setting is process-wide, like the locale: ids are written in many places, such as log messages, notes of
    /// exceptions and reasons of drained nodes, and all of them follow the locale. A manager calls this before
    /// anything else.
    pub fn display_plain() {
        // Relaxed: the flag publishes no other data.
        DISPLAY_PLAIN.store(true, Ordering::Relaxed);
    }

    /// The text of this id in `encoding`.
    #[must_use]
    pub fn encode(self, encoding: Encoding) -> String {
        match encoding {
            Encoding::Dec => self.0.to_string(),
            Encoding::Hex => format!("{:#x}", self.0),
            Encoding::DotHex => self.dothex(),
            Encoding::Kvs => format!("job.{}", self.dothex()),
            Encoding::F58 => self.base58(F58_PREFIX),
            Encoding::F58Plain => self.base58(F58_PLAIN_PREFIX),
            Encoding::Words => mnemonic::to_string(self.0.to_le_bytes()),
            Encoding::Emoji => emoji::encode(self.0),
        }
    }

    /// The key of this job's `name` in the KVS (RFC 16), such as `R`, `jobspec` or `eventlog`.
    ///
    /// ```
    /// use jobtap_core::job::JobId;
    ///
    /// assert_eq!(JobId::new(0x10002).kvs_key("R"), "job.0000.0000.0001.0002.R");
    /// ```
    #[must_use]
    pub fn kvs_key(self, name: &str) -> String {
        format!("job.{}.{name}", self.dothex())
    }

    fn dothex(self) -> String {
        let group = |shift: u32| (self.0 >> shift) & 0xffff;
        format!("{:04x}.{:04x}.{:04x}.{:04x}", group(48), group(32), group(16), group(0))
    }

    fn base58(self, prefix: char) -> String {
        let mut rest = self.0;
        let mut digits = Vec::with_capacity(MAX_BASE58_DIGITS);
        loop {
            digits.extend(BASE58.get((rest % 58) as usize).copied().map(char::from));
            rest /= 58;
            if rest == 0 {
                break;
            }
        }
        std::iter::once(prefix).chain(digits.into_iter().rev()).collect()
    }
}

impl From<u64> for JobId {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl From<JobId> for u64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = DISPLAY_PLAIN.load(Ordering::Relaxed);
        f.pad(&self.encode(if plain { Encoding::F58Plain } else { Encoding::F58 }))
    }
}

impl FromStr for JobId {
    type Err = JobIdError;

    /// Reads an id in any [`Encoding`]; white space around it is ignored.
    fn from_str(text: &str) -> Result<Self, JobIdError> {
        let trimmed = text.trim();
        let bare = trimmed.strip_prefix("job.").unwrap_or(trimmed);
        let value = if bare.contains('.') {
            parse_dothex(bare)
        } else if bare.contains('-') {
            parse_words(bare)
        } else if emoji::is_emoji(bare) {
            parse_emoji(bare)
        } else if let Some(digits) = bare.strip_prefix([F58_PREFIX, F58_PLAIN_PREFIX]) {
            parse_base58(digits)
        } else if let Some(digits) = bare.strip_prefix("0x") {
            parse_radix(digits, 16)
        } else {
            parse_radix(bare, 10)
        };
        value.map(Self).map_err(|fault| match fault {
            Fault::Malformed => JobIdError::Invalid(text.to_owned()),
            Fault::TooLarge => JobIdError::Range(text.to_owned()),
        })
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A binary format doesn't tell types apart. It holds a number, as `serialize` wrote it.
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self);
        }
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Unsigned(value) => Ok(Self(value)),
            NumberOrText::Text(text) => text.parse().map_err(de::Error::custom),
            other => Err(de::Error::custom(JobIdError::Invalid(other.to_string()))),
        }
    }
}

enum Fault {
    Malformed,
    TooLarge,
}

fn parse_dothex(text: &str) -> Result<u64, Fault> {
    let mut value = 0;
    let mut groups = 0;
    for group in text.split('.') {
        if group.len() > 4 {
            return Err(Fault::Malformed);
        }
        groups += 1;
        if groups > 4 {
            return Err(Fault::Malformed);
        }
        value = value << 16 | parse_radix(group, 16)?;
    }
    if groups == 4 { Ok(value) } else { Err(Fault::Malformed) }
}

fn parse_words(text: &str) -> Result<u64, Fault> {
    let mut bytes = Vec::with_capacity(8);
    mnemonic::decode(text, &mut bytes).map_err(|_| Fault::Malformed)?;
    // A seventh word starts another group of four bytes.
    if bytes.len() > 8 {
        return Err(Fault::TooLarge);
    }
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| Fault::Malformed)?))
}

fn parse_base58(digits: &str) -> Result<u64, Fault> {
    if digits.is_empty() || digits.len() > MAX_BASE58_DIGITS {
        return Err(Fault::Malformed);
    }
    let mut value: u128 = 0;
    for digit in digits.bytes() {
        let digit = BASE58.iter().position(|&known| known == digit).ok_or(Fault::Malformed)?;
        // There are at most 12 digits and 58^12 is below 2^71, so this can't overflow.
        value = value * 58 + digit as u128;
    }
    u64::try_from(value).map_err(|_| Fault::TooLarge)
}

fn parse_emoji(text: &str) -> Result<u64, Fault> {
    let value = emoji::decode(text).ok_or(Fault::Malformed)?;
    u64::try_from(value).map_err(|_| Fault::TooLarge)
}

fn parse_radix(digits: &str, radix: u32) -> Result<u64, Fault> {
    // `from_str_radix` would accept a sign.
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(Fault::Malformed);
    }
    u64::from_str_radix(digits, radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => Fault::TooLarge,
        _ => Fault::Malformed,
    })
}

/// Why a text is not a job id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobIdError {
    /// The text isn't in any encoding (`EINVAL`).
    #[error("invalid job id `{0}`: expected a form such as ƒuzzybunny, 1234 or 0x4d2")]
    Invalid(String),
    /// The number needs more than 64 bits (`ERANGE`).
    #[error("job id `{0}` is out of range: it needs more than 64 bits")]
    Range(String),
}

/// The text forms of a job id (RFC 19). Their names are parsed case-insensitively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Decimal: `6731191091817518`.
    Dec,
    /// Hexadecimal: `0x17e9fb8df16c2e`.
    Hex,
    /// Four groups of four hexadecimal digits: `0017.e9fb.8df1.6c2e`.
    DotHex,
    /// The job's directory in the store (RFC 16): `job.0017.e9fb.8df1.6c2e`.
    Kvs,
    /// Base 58, the form for people: `ƒuZZybuNNy`.
    #[default]
    F58,
    /// Base 58 in ASCII: `fuZZybuNNy`.
    F58Plain,
    /// Six words, for spoken communication: `acrobat-academy-academy--academy-academy-academy`.
    Words,
    /// Base 576 in emoji: `👩💅📓😸👑🚓`.
    Emoji,
}

impl Encoding {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Dec, "dec"),
        (Self::Hex, "hex"),
        (Self::DotHex, "dothex"),
        (Self::Kvs, "kvs"),
        (Self::F58, "f58"),
        (Self::F58Plain, "f58plain"),
        (Self::Words, "words"),
        (Self::Emoji, "emoji"),
    ];
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        Self::NAMES
            .iter()
            .find(|(_, known)| known.eq_ignore_ascii_case(name))
            .map(|&(encoding, _)| encoding)
            .ok_or_else(|| UnknownEncoding(name.to_owned()))
    }
}

/// A name that no [`Encoding`] has (`EPROTO`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown job id encoding `{0}`: use dec, hex, dothex, kvs, f58, f58plain, words or emoji")]
pub struct UnknownEncoding(pub String);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const VECTORS: [(u64, &str, &str, &str); 16] = [
        (0, "0x0", "0000.0000.0000.0000", "1"),
        (1, "0x1", "0000.0000.0000.0001", "2"),
        (57, "0x39", "0000.0000.0000.0039", "z"),
        (1234, "0x4d2", "0000.0000.0000.04d2", "NH"),
        (1888, "0x760", "0000.0000.0000.0760", "ZZ"),
        (3363, "0xd23", "0000.0000.0000.0d23", "zz"),
        (3364, "0xd24", "0000.0000.0000.0d24", "211"),
        (4369, "0x1111", "0000.0000.0000.1111", "2JL"),
        (65535, "0xffff", "0000.0000.0000.ffff", "LUv"),
        (633528662, "0x25c2e156", "0000.0000.25c2.e156", "xyzzy"),
        (4294967295, "0xffffffff", "0000.0000.ffff.ffff", "7YXq9G"),
        (8069840896, "0x1e1000000", "0000.0001.e100.0000", "DJ73Ys"),
        (4181414752813056, "0xedaf97d000000", "000e.daf9.7d00.0000", "ZemgA8Bzf"),
        (6731191091817518, "0x17e9fb8df16c2e", "0017.e9fb.8df1.6c2e", "uZZybuNNy"),
        (6787342413402046, "0x181d0d4d850fbe", "0018.1d0d.4d85.0fbe", "uzzybunny"),
        (u64::MAX, "0xffffffffffffffff", "ffff.ffff.ffff.ffff", "jpXCZedGfVQ"),
    ];

    #[test]
    fn known_ids_round_trip_in_every_encoding() {
        for (value, hex, dothex, digits) in VECTORS {
            let id = JobId::new(value);
            for (encoding, text) in [
                (Encoding::Dec, value.to_string()),
                (Encoding::Hex, hex.to_owned()),
                (Encoding::DotHex, dothex.to_owned()),
                (Encoding::Kvs, format!("job.{dothex}")),
                (Encoding::F58, format!("ƒ{digits}")),
                (Encoding::F58Plain, format!("f{digits}")),
            ] {
                assert_eq!(id.encode(encoding), text);
                assert_eq!(text.parse(), Ok(id), "{text}");
            }
        }
    }

    #[test]
    fn accepts_spaces_prefixes_and_leading_zeros() {
        for (text, value) in [
            ("f111", 0),
            ("f111111111112", 1),
            ("a.b.c.d", 2814797012533261),
            ("1.2.3.4", 281483566841860),
            ("A.B.C.D", 2814797012533261),
            ("job.f2", 1),
            ("  f2\n", 1),
            ("\t0x1 ", 1),
            ("007", 7),
            ("0x000000000000000000001", 1),
            ("0xFF", 255),
            ("fjpXCZedGfVP", u64::MAX - 1),
        ] {
            assert_eq!(text.parse(), Ok(JobId::new(value)), "{text}");
        }
    }

    #[test]
    fn refuses_malformed_ids() {
        for text in [
            "",
            " ",
            "f",
            "ƒ",
            "boo",
            "invalid",
            "F1",
            "0x",
            "0X1f",
            "12a",
            "1 2",
            "-1",
            "+5",
            "0x+1",
            "invalid-words-test",
            "0.0.0",
            "0.0.0.0.0",
            "0.0.0.g",
            "0.0.0.",
            ".0.0.0",
            "00000.0.0.0",
            "+1.0.0.0",
            "job.",
            "job.0.0",
            "job.0.0.0.0.0",
            "job.job.0.0.0.0",
            "notjob.0.0.0.0",
            "f0",
            "fO",
            "fI",
            "fl",
            "flux",
            "f1230",
            "f1111111111111",
            "fƒ1",
            "😀😀",
            "😃x",
            "😃😃😃😃😃😃😃😃",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(JobIdError::Invalid(text.to_owned())));
        }
    }

    #[test]
    fn more_than_64_bits_are_out_of_range() {
        for text in [
            "18446744073709551616",
            "0x1ffffffffffffffff",
            "fjpXCZedGfVR",
            "fzzzzzzzzzzzz",
            "🚹💗💧👗😷📷📓",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(JobIdError::Range(text.to_owned())));
        }
    }

    #[test]
    fn display_is_f58_and_respects_the_width() {
        assert_eq!(JobId::new(1234).to_string(), "ƒNH");
        assert_eq!(format!("{:>6}|", JobId::new(1234)), "   ƒNH|");
    }

    #[test]
    fn encoding_names_are_case_insensitive() {
        assert_eq!("DotHex".parse(), Ok(Encoding::DotHex));
        assert_eq!("F58PLAIN".parse(), Ok(Encoding::F58Plain));
        assert_eq!("octal".parse::<Encoding>(), Err(UnknownEncoding("octal".to_owned())));
    }

    #[test]
    fn json_writes_an_integer_and_reads_integer_or_string() {
        let id = JobId::new(1234);
        assert_eq!(serde_json::to_string(&id).unwrap(), "1234");
        for text in ["1234", "\"ƒNH\"", "\"1234\""] {
            assert_eq!(serde_json::from_str::<JobId>(text).unwrap(), id);
        }
        for text in ["-1", "1.5", "true", "\"flux\"", "null"] {
            assert!(serde_json::from_str::<JobId>(text).is_err(), "{text}");
        }
        let by_id = HashMap::from([(id, 1)]);
        let text = serde_json::to_string(&by_id).unwrap();
        assert_eq!(serde_json::from_str::<HashMap<JobId, i32>>(&text).unwrap(), by_id);
    }

    #[test]
    fn six_words_are_an_id() {
        for (value, words) in [
            (1, "acrobat-academy-academy--academy-academy-academy"),
            (12345, "package-africa-academy--academy-academy-academy"),
            (68484595712, "aroma-brain-shake--albert-academy-academy"),
            (u64::MAX, "natural-analyze-verbal--natural-analyze-verbal"),
        ] {
            assert_eq!(JobId::new(value).encode(Encoding::Words), words);
            assert_eq!(words.parse(), Ok(JobId::new(value)));
        }
        for bad in ["-1", "acrobat-academy", "a-b-c--d-e-f", "acrobat--", "-"] {
            assert_eq!(bad.parse::<JobId>(), Err(JobIdError::Invalid(bad.to_owned())));
        }
        let long = "acrobat-academy-academy--academy-academy-academy--acrobat-academy-academy";
        assert_eq!(long.parse::<JobId>(), Err(JobIdError::Range(long.to_owned())));
    }

    #[test]
    fn emoji_are_an_id() {
        for (value, text) in [
            (0, "😃"),
            (575, "🎌"),
            (6731191091817518, "👩💅📓😸👑🚓"),
            (6787342413402046, "👴😱🔚🎮🕙🚩"),
            (u64::MAX, "🚹💗💧👗😷📷📚"),
        ] {
            assert_eq!(JobId::new(value).encode(Encoding::Emoji), text);
            assert_eq!(text.parse(), Ok(JobId::new(value)));
        }
    }

    proptest! {
        #[test]
        fn every_encoding_round_trips(value: u64) {
            let id = JobId::new(value);
            for (encoding, name) in Encoding::NAMES {
                prop_assert_eq!(id.encode(encoding).parse(), Ok(id), "{}", name);
            }
        }

        #[test]
        fn text_is_parsed_or_quoted_in_the_error(
            text in prop_oneof![
                "\\PC*",
                "(job\\.)?[fƒ0x.+-]{0,4}[0-9a-zA-Z.]{0,20}",
                "((academy|acrobat|natural|verbal|ego|zoom|x)-{1,2}){0,9}",
            ],
        ) {
            match text.parse::<JobId>() {
                Ok(id) => {
                    let number = text.trim().parse().map_or(id, JobId::new);
                    prop_assert_eq!(id, number);
                }
                Err(JobIdError::Invalid(named) | JobIdError::Range(named)) => {
                    prop_assert_eq!(named, text);
                }
            }
        }
    }
}
