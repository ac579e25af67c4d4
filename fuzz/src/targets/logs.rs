//! Eventlogs: of other managers, in dumps, and of what clients post.

use jobtap_domain::eventlog::{EventEntry, decode_log};

use crate::again::text;

/// Eventlogs (RFC 18), whole and line by line.
pub(super) fn eventlog(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(log) = decode_log(text) {
        let written: String = log.iter().map(EventEntry::encode).collect();
        assert_eq!(decode_log(&written).as_ref(), Ok(&log), "{written}");
    }
    if let Ok(entry) = EventEntry::decode(text) {
        let written = entry.encode();
        assert_eq!(written.matches('\n').count(), 1, "{written}");
        assert_eq!(EventEntry::decode(&written).as_ref(), Ok(&entry), "{written}");
        let is_named = entry.exception().is_none() || &*entry.name == "exception";
        assert!(is_named, "{written}");
        let _ = entry.event();
        let _ = entry.check();
    }
}
