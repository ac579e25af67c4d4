//! What users type as one word, and what tables and jobspecs have as a text.

use jobtap_domain::job::{
    Encoding, Flags, Fsd, JobId, JobResult, Signal, State, StateSet, Timestamp, Uid, Urgency,
};
use jobtap_domain::resource::Property;

use crate::again::{json, parsed, text};

/// The ways to write an id.
const ENCODINGS: [Encoding; 7] = [
    Encoding::Dec,
    Encoding::Hex,
    Encoding::DotHex,
    Encoding::Kvs,
    Encoding::Words,
    Encoding::Emoji,
    Encoding::F58,
];

/// Ids in each encoding.
pub(super) fn id(bytes: &[u8]) {
    json::<JobId>(bytes);
    let Some(text) = text(bytes) else { return };
    let Some(id) = parsed::<JobId>(text) else { return };
    for encoding in ENCODINGS {
        let written = id.encode(encoding);
        assert_eq!(written.parse(), Ok(id), "{written}");
    }
}

/// Durations and points in time.
pub(super) fn duration(bytes: &[u8]) {
    json::<Fsd>(bytes);
    let Some(text) = text(bytes) else { return };
    if let Ok(duration) = text.parse::<Fsd>() {
        let (secs, again) = (duration.as_secs(), duration.to_string().parse::<Fsd>());
        let again = again.map_or(f64::NAN, Fsd::as_secs);
        // The text has six digits.
        assert!(secs == again || (again - secs).abs() <= secs * 1e-5, "{secs} is read as {again}");
        assert!(duration.to_duration().is_none_or(|time| time.as_secs_f64() >= 0.0));
    }
    assert_eq!(text.is_empty() || text.parse::<Fsd>().is_ok(), Fsd::from_config(text).is_ok());
    if let Some(time) = Timestamp::parse(text) {
        assert!(time.as_secs().is_finite(), "{time:?}");
    }
}

/// Names with a fixed meaning: states, results, signals, flags, urgencies, users and properties.
pub(super) fn word(bytes: &[u8]) {
    json::<StateSet>(bytes);
    json::<Urgency>(bytes);
    json::<Flags>(bytes);
    json::<Signal>(bytes);
    let Some(text) = text(bytes) else { return };
    parsed::<State>(text);
    parsed::<JobResult>(text);
    parsed::<StateSet>(text);
    parsed::<Signal>(text);
    parsed::<Flags>(text);
    parsed::<Urgency>(text);
    parsed::<Uid>(text);
    parsed::<Property>(text);
}
