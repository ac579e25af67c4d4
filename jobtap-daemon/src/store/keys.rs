//! Keys: the names of RFC 16 for the data of jobs and of the instance, used by stores, archives and
//! restarts alike.
//!
//! The part of a key that names a job has a fixed width, so the byte order of keys is the order of job
//! ids, and a scan visits jobs in the order of their submission.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The prefix of the keys of all jobs.
pub(super) const JOBS: &str = "job.";

/// The length of `0000.0000.0000.0002` in bytes.
const DOTHEX_LEN: usize = 19;
/// The longest name below a job or the instance, in bytes: far longer than any RFC 16 name, and far
/// shorter than the longest key of a store.
const MAX_NAME: usize = 1024;

/// A key of the store: one value, or one log, of a job or of the instance (RFC 16).
///
/// Keys sort by their text, so jobs sort by id. The text is built only on request: commits, which handle hundreds
/// of thousands of keys per second, need only its parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    job: Option<u64>,
    name: Name,
}

/// The name of a key. The name of a job's key is a [`Frequent`] one whenever possible, so that keys with the same
/// text compare equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Frequent(Frequent),
    Other(Box<str>),
}

impl Name {
    fn as_str(&self) -> &str {
        match self {
            Self::Frequent(name) => name.as_str(),
            Self::Other(name) => name,
        }
    }
}

/// A name that nearly every job has below it. Such a name needs no allocation, and the store keeps what a commit
/// writes under these names in one row, see [`bundle`](super::bundle).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frequent(u8);

/// On the disk, a name is represented by its index in this list.
const FREQUENT: [&str; 6] =
    [Key::EVENTLOG, Key::EXEC_EVENTLOG, Key::J, Key::JOBSPEC, Key::R, Key::OUTPUT];

impl Frequent {
    /// The name [`Key::J`].
    pub(super) const J: Self = Self(2);
    /// The name [`Key::JOBSPEC`].
    pub(super) const JOBSPEC: Self = Self(3);

    /// The name with this number.
    pub(super) fn from_number(number: u8) -> Option<Self> {
        FREQUENT.get(usize::from(number)).map(|_| Self(number))
    }

    /// The number of the name, for [`Frequent::from_number`].
    pub(super) fn number(self) -> u8 {
        self.0
    }

    /// The name itself.
    pub(super) fn as_str(self) -> &'static str {
        FREQUENT.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// The frequent name with this text, if there is one.
    pub(super) fn named(name: &str) -> Option<Self> {
        let number = FREQUENT.iter().position(|frequent| *frequent == name)?;
        u8::try_from(number).ok().map(Self)
    }
}

/// The reason why a text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name is empty.
    #[error("a key needs a name after {0:?}")]
    Empty(String),
    /// The name is too long for a store.
    #[error("the key name of {0} bytes is too long: use at most {MAX_NAME}")]
    TooLong(usize),
    /// The name has a control character, which would break the line-based tools that show keys.
    #[error("the key name {0:?} has a control character: use printable text")]
    Control(String),
    /// The text starts like a job's key, but what follows is not a job id in dothex form.
    #[error("could not decode {0:?} to job ID: a job's key reads job.HHHH.HHHH.HHHH.HHHH.NAME")]
    JobId(String),
}

impl Key {
    /// Name of the signed request below a job.
    pub const J: &'static str = "J";
    /// Name of the jobspec as submitted below a job.
    pub const JOBSPEC: &'static str = "jobspec";
    /// Name of the main eventlog below a job.
    pub const EVENTLOG: &'static str = "eventlog";
    /// Name of the execution's eventlog below a job.
    pub const EXEC_EVENTLOG: &'static str = "guest.exec.eventlog";
    /// Name of the resource set below a job.
    pub const R: &'static str = "R";
    /// Name of the output of a job's tasks below the job.
    pub const OUTPUT: &'static str = "guest.output";

    /// The prefix of the keys of the job index, which is not in RFC 16.
    pub const INDEX: &'static str = "jobtap.job.";
    /// The key whose presence shows that the index is complete.
    pub const INDEXED: &'static str = "jobtap.indexed";

    /// The prefix, before the id, of the keys of a job that can't be restored.
    pub const LOST_JOB: &'static str = "job-lost+found.job.";

    /// The signed request of job `id`.
    pub fn request(id: u64) -> Self {
        Self { job: Some(id), name: Name::Frequent(Frequent::J) }
    }

    /// The jobspec of job `id`.
    pub fn jobspec(id: u64) -> Self {
        Self { job: Some(id), name: Name::Frequent(Frequent::JOBSPEC) }
    }

    /// The main eventlog of job `id`.
    pub fn eventlog(id: u64) -> Self {
        Self::below(id, Self::EVENTLOG)
    }

    /// The resource set of job `id`.
    pub fn resources(id: u64) -> Self {
        Self::below(id, Self::R)
    }

    /// A key for the shell, tools and the job itself: `guest.<path>`, such as `guest.exec.eventlog`.
    ///
    /// # Errors
    /// As [`Key::job`].
    pub fn guest(id: u64, path: &str) -> Result<Self, KeyError> {
        check_name(path, "guest.")?;
        Self::job(id, &format!("guest.{path}"))
    }

    /// A key for the data of a service or plugin about a job: `data.<service>`.
    ///
    /// # Errors
    /// As [`Key::job`].
    pub fn data(id: u64, service: &str) -> Result<Self, KeyError> {
        check_name(service, "data.")?;
        Self::job(id, &format!("data.{service}"))
    }

    /// Any key of job `id`. Dots in `name` are not changed.
    ///
    /// # Errors
    /// Fails if the name is empty, longer than 1024 bytes, or has control characters.
    pub fn job(id: u64, name: &str) -> Result<Self, KeyError> {
        if let Some(frequent) = Frequent::named(name) {
            return Ok(Self { job: Some(id), name: Name::Frequent(frequent) });
        }
        check_name(name, JOBS)?;
        Ok(Self::below(id, name))
    }

    /// The manager's checkpoint: queue states and the highest job id.
    pub fn checkpoint() -> Self {
        Self { job: None, name: Name::Other("checkpoint.job-manager".into()) }
    }

    /// A key of the instance, such as `resource.eventlog`.
    ///
    /// # Errors
    /// As [`Key::job`], and if the name has the form of a job's key.
    pub fn instance(name: &str) -> Result<Self, KeyError> {
        check_name(name, "")?;
        if name == "job" || name.starts_with(JOBS) {
            return Err(KeyError::JobId(name.to_owned()));
        }
        Ok(Self { job: None, name: Name::Other(name.into()) })
    }

    /// Whether the text of the key begins with `prefix`.
    pub fn starts_with(&self, prefix: &str) -> bool {
        match self.job {
            Some(_) => self.to_string().starts_with(prefix),
            None => self.name().starts_with(prefix),
        }
    }

    /// The job that the key belongs to; `None` for a key of the instance.
    pub fn job_id(&self) -> Option<u64> {
        self.job
    }

    /// The name below the job, or the whole key if it is a key of the instance.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The job and the name, if the name is a frequent one.
    pub(super) fn frequent(&self) -> Option<(u64, Frequent)> {
        match self.name {
            Name::Frequent(name) => Some((self.job?, name)),
            Name::Other(_) => None,
        }
    }

    /// Whether the key belongs to the job index. A manager derives the index from the other keys, so it
    /// is neither listed nor archived.
    pub fn is_index(&self) -> bool {
        let name = self.name();
        self.job.is_none() && (name.starts_with(Self::INDEX) || name == Self::INDEXED)
    }

    /// The id and the name, possibly empty, if `text` has the complete prefix of a job's keys.
    pub(super) fn split_job(text: &str) -> Option<(u64, &str)> {
        let (id, name) = text.strip_prefix(JOBS)?.split_at_checked(DOTHEX_LEN)?;
        Some((parse_dothex(id)?, name.strip_prefix('.')?))
    }

    fn below(id: u64, name: &str) -> Self {
        let frequent = Frequent::named(name).map(Name::Frequent);
        Self { job: Some(id), name: frequent.unwrap_or_else(|| Name::Other(name.into())) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.job {
            let group = |shift: u32| (id >> shift) & 0xffff;
            let (a, b, c, d) = (group(48), group(32), group(16), group(0));
            write!(f, "{JOBS}{a:04x}.{b:04x}.{c:04x}.{d:04x}.")?;
        }
        f.write_str(self.name())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.job, other.job) {
            (None, None) => self.name().cmp(other.name()),
            (Some(one), Some(another)) => (one, self.name()).cmp(&(another, other.name())),
            // The name of an instance's key never begins with the prefix of a job's key.
            (None, Some(_)) => self.name().cmp(JOBS),
            (Some(_), None) => JOBS.cmp(other.name()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if !text.starts_with(JOBS) {
            return Self::instance(text);
        }
        match Self::split_job(text) {
            Some((id, name)) => Self::job(id, name),
            None => Err(KeyError::JobId(text.to_owned())),
        }
    }
}

/// Parses a job id. Accepts only the spelling that a key is written with: with a second spelling a job
/// would have two sets of keys.
fn parse_dothex(text: &str) -> Option<u64> {
    let mut id = 0u64;
    let mut groups = 0;
    for group in text.split('.') {
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if group.len() != 4 || !group.bytes().all(lower_hex) {
            return None;
        }
        id = (id << 16) | u64::from_str_radix(group, 16).ok()?;
        groups += 1;
    }
    (groups == 4).then_some(id)
}

fn check_name(name: &str, before: &str) -> Result<(), KeyError> {
    if name.is_empty() {
        return Err(KeyError::Empty(before.to_owned()));
    }
    if name.len() > MAX_NAME {
        return Err(KeyError::TooLong(name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err(KeyError::Control(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_have_the_names_of_rfc_16() {
        let foo = Key::job(2, "foo").unwrap();
        assert_eq!(foo.to_string(), "job.0000.0000.0000.0002.foo");
        let log = Key::eventlog(0xdead_beef);
        assert_eq!(log.to_string(), "job.0000.0000.dead.beef.eventlog");
        let guest = Key::guest(3, "a.b").unwrap();
        assert_eq!(guest.to_string(), "job.0000.0000.0000.0003.guest.a.b");
        let data = Key::data(0xff2000000, "fairshare").unwrap();
        assert_eq!(data.to_string(), "job.0000.000f.f200.0000.data.fairshare");
        assert_eq!(Key::checkpoint().to_string(), "checkpoint.job-manager");
    }

    /// The numbers are on the disks of users.
    #[test]
    fn a_frequent_name_keeps_its_number() {
        let names = ["eventlog", "guest.exec.eventlog", "J", "jobspec", "R", "guest.output"];
        for (number, name) in (0..).zip(names) {
            let frequent = Key::job(7, name).unwrap().frequent();
            assert_eq!(frequent, Some((7, Frequent::from_number(number).unwrap())));
            assert_eq!(frequent.map(|(_, frequent)| frequent.number()), Some(number));
            assert_eq!(frequent.map(|(_, frequent)| frequent.as_str()), Some(name));
        }
        assert_eq!(Frequent::from_number(6), None);
        assert_eq!((Frequent::J.as_str(), Frequent::JOBSPEC.as_str()), (Key::J, Key::JOBSPEC));
        assert_eq!(Key::job(7, "data.x").unwrap().frequent(), None);
        assert_eq!(Key::instance("R").unwrap().frequent(), None);
    }

    #[test]
    fn a_key_knows_its_job_and_name() {
        let key: Key = "job.0000.000f.f200.0000.guest.exec.eventlog".parse().unwrap();
        assert_eq!(key.job_id(), Some(0xff2000000));
        assert_eq!(key.name(), "guest.exec.eventlog");
        let key: Key = "checkpoint.job-manager".parse().unwrap();
        assert_eq!((key.job_id(), key.name()), (None, "checkpoint.job-manager"));
        assert_eq!(key, Key::checkpoint());
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Key>().unwrap_err();
        for text in [
            "job.",
            "job",
            "job.1.2.3.4.R",
            "job.0000.0000.0000.000G.R",
            "job.0000.0000.0000.000A.R",
            "job.0000.0000.0000.0001",
            "job.0000.0000.0000.0001-R",
            "job.+000.0000.0000.0001.R",
            "job.ƒƒƒƒƒƒƒƒƒƒƒ",
        ] {
            assert_eq!(refused(text), KeyError::JobId(text.to_owned()), "{text}");
        }
        assert!(matches!(refused(""), KeyError::Empty(_)));
        assert!(matches!(refused("job.0000.0000.0000.0001."), KeyError::Empty(_)));
        assert!(matches!(refused("a\0b"), KeyError::Control(_)));
        assert!(matches!(refused(&"x".repeat(1025)), KeyError::TooLong(1025)));
        assert!(matches!(Key::guest(1, ""), Err(KeyError::Empty(_))));
        assert!(matches!(Key::data(1, ""), Err(KeyError::Empty(_))));
    }

    proptest! {
        #[test]
        fn a_key_reads_back_as_itself(id: u64, name in "[^\\p{Cc}]{1,40}") {
            let key = Key::job(id, &name).unwrap();
            prop_assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        }

        #[test]
        fn keys_sort_by_job_id(a: u64, b: u64) {
            let (left, right) = (Key::eventlog(a), Key::eventlog(b));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }

        #[test]
        fn keys_sort_by_their_text(
            keys in prop::collection::vec(
                prop_oneof![
                    (0u64..3, "[a-z.]{1,3}").prop_map(|(id, name)| Key::job(id << 15, &name)),
                    "(jo|job|jobs|[a-z.]){1,3}".prop_map(|name| Key::instance(&name)),
                ],
                0..9,
            ),
        ) {
            let mut keys: Vec<Key> = keys.into_iter().filter_map(Result::ok).collect();
            keys.sort();
            let texts: Vec<String> = keys.iter().map(Key::to_string).collect();
            prop_assert!(texts.is_sorted(), "{texts:?}");
        }

        #[test]
        fn a_key_is_its_text(text in "(job\\.)?(\\PC{0,60}|([0-9a-f]{4}\\.){0,5}[a-zA-Z.]{0,9})") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.to_string(), text);
                let again = match key.job_id() {
                    Some(id) => Key::job(id, key.name()),
                    None => Key::instance(key.name()),
                };
                prop_assert_eq!(again.unwrap(), key);
            }
        }
    }
}
