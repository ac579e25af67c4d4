//! Archives: everything that a manager stores, as one tar file in the layout of Flux's dumps, to move an
//! instance, to back it up, or to take it over from Flux.
//!
//! One file for each key; the path is the key with its components separated by `/`.

mod dump;
mod entries;
mod error;
#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod jobs;
mod path;
mod restore;

pub use dump::{Counts, Overrides, dump};
pub use error::{ArchiveError, EntryFault, Incomplete, PathFault};
pub use jobs::{RecordedJobs, of_archive};
pub use restore::{Restored, restore};

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::store::{EmbeddedStore, GuestFiles, Key, Op, Store};

    /// Returns all keys with their values, in order: those in the store, without the index, and those in
    /// files.
    fn content(state: &Path) -> Vec<(String, Vec<u8>)> {
        let store = EmbeddedStore::open(&state.join("store")).unwrap();
        let files = GuestFiles::new(state);
        let mut all: Vec<(String, Vec<u8>)> = store
            .list("")
            .unwrap()
            .into_iter()
            .filter(|key| !key.is_index())
            .map(|key| {
                let value = store.get(&key).unwrap().or_else(|| store.read_log(&key).unwrap());
                (key.to_string(), value.unwrap())
            })
            .collect();
        for id in store.job_ids().unwrap() {
            for name in GuestFiles::names() {
                let value = files.read(id, name).unwrap();
                all.extend(value.map(|value| (Key::job(id, name).unwrap().to_string(), value)));
            }
        }
        all.sort();
        all
    }

    fn restore(state: &Path, file: &Path) -> Result<Restored, ArchiveError> {
        super::restore(state, file, &mut |_| {})
    }

    fn dump_of(state: &Path, file: &Path) {
        let store = EmbeddedStore::open(&state.join("store")).unwrap();
        dump(&store, &GuestFiles::new(state), Overrides::new(), file).unwrap();
    }

    /// Makes an archive with these entries, as another program may write it.
    fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, data) in entries {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(data.len() as u64);
            // Not by `set_path`, which refuses paths that a hostile archive may have.
            let name = &mut header.as_old_mut().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, data.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// Returns why these bytes can't be restored, and checks that nothing is left of the attempt.
    fn refusal(bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (file, state) = (dir.path().join("a.tar"), dir.path().join("state"));
        std::fs::write(&file, bytes).unwrap();
        std::fs::create_dir(&state).unwrap();
        let error = restore(&state, &file).unwrap_err().to_string();
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "{error}");
        error.strip_prefix(&format!("{}: ", file.display())).unwrap_or(&error).to_owned()
    }

    #[test]
    fn a_value_that_would_fill_the_memory_is_refused_unread() {
        let mut header = tar::Header::new_ustar();
        header.set_size(3 << 30);
        header.set_path("checkpoint/job-manager").unwrap();
        header.set_cksum();
        let refused = refusal(header.as_bytes());
        assert_eq!(
            refused,
            "entry \"checkpoint/job-manager\": it has 3221225472 bytes, and at most 256 MiB are read"
        );
    }

    #[test]
    fn a_dump_restores_every_key() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(first.join("output")).unwrap();
        std::fs::create_dir(&second).unwrap();
        {
            let store = EmbeddedStore::open(&first.join("store")).unwrap();
            let mut ops = vec![
                Op::Put { key: Key::checkpoint(), value: "{}".into() },
                Op::Put { key: Key::instance(Key::INDEXED).unwrap(), value: "1".into() },
                Op::Put { key: Key::instance("jobtap.job.7").unwrap(), value: "".into() },
                Op::Put {
                    key: Key::instance("job-lost+found.job.ƒ2.R").unwrap(),
                    value: "?".into(),
                },
                Op::Put { key: Key::data(7, "a/b.%").unwrap(), value: "1".into() },
                Op::Put { key: Key::data(7, &"long.".repeat(80)).unwrap(), value: "".into() },
                Op::Put { key: Key::job(9, "x..y").unwrap(), value: vec![0, 255] },
            ];
            for seq in 0..3 {
                let value = format!("{seq}\n").into_bytes();
                ops.push(Op::Append { key: Key::eventlog(7), seq, value });
            }
            store.commit(ops).unwrap();
            for (id, text) in [(7, "hi".to_owned()), (9, "hi".repeat(4096))] {
                let output = GuestFiles::new(&first).path(id, "guest.output").unwrap();
                std::fs::write(output, text).unwrap();
            }
        }
        for name in ["a.tar", "a.tar.bz2", "a.tgz"] {
            let (file, again) = (dir.path().join(name), dir.path().join("again.tar"));
            let state = second.join(name);
            std::fs::create_dir(&state).unwrap();
            dump_of(&first, &file);
            let restored = restore(&state, &file).unwrap();
            assert_eq!((restored.jobs, restored.keys), (2, 8));
            assert_eq!(content(&state), content(&first));
            let files = std::fs::read_dir(state.join("output")).unwrap();
            assert_eq!(files.count(), 1, "only much output needs a file");
            // Since the mark is missing, the first start builds the index.
            let store = EmbeddedStore::open(&state.join("store")).unwrap();
            assert!(!store.list("").unwrap().iter().any(Key::is_index));
            drop(store);
            dump_of(&state, &again);
            let third = second.join(format!("{name}.3"));
            std::fs::create_dir(&third).unwrap();
            restore(&third, &again).unwrap();
            assert_eq!(content(&third), content(&first));
        }
    }

    #[test]
    fn a_restored_log_can_be_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.tar");
        let path = "job/0000/0000/0000/0001/eventlog";
        std::fs::write(&file, archive(&[("job/", ""), (path, "a\nb\n")])).unwrap();
        restore(dir.path(), &file).unwrap();
        let store = EmbeddedStore::open(&dir.path().join("store")).unwrap();
        let key = Key::eventlog(1);
        store.commit(vec![Op::Append { key: key.clone(), seq: 2, value: "c\n".into() }]).unwrap();
        assert_eq!(store.read_log(&key).unwrap().unwrap(), b"a\nb\nc\n");
    }

    #[test]
    fn a_cut_archive_ends_too_early_wherever_it_is_cut() {
        let first = "job/0000/0000/0000/0001/R";
        let second = "job/0000/0000/0000/0002/R";
        let whole = archive(&[(first, "{}"), (second, &"x".repeat(2000))]);
        let header = usize::try_from(entries::BLOCK).unwrap();
        // In the first value, in the second header, in the second value, and before the mark at the end.
        for cut in [header + 1, 2 * header + 7, 3 * header + 7, whole.len() - 2 * header] {
            let refused = refusal(&whole[..cut]);
            assert!(refused.contains("it ends too early"), "{cut}: {refused}");
        }
    }

    #[test]
    fn a_bad_entry_is_named_and_nothing_is_restored() {
        let good = ("job/0000/0000/0000/0001/R", "{}");
        let cases = [
            ("/etc/passwd", "\"/etc/passwd\": the path is absolute"),
            ("a/../b", "\"a/../b\": the path leads out of its directory"),
            (
                "job/1/2/3/4/R",
                "\"job/1/2/3/4/R\": could not decode \"job.1.2.3.4.R\" to job ID: a job's key \
                 reads job.HHHH.HHHH.HHHH.HHHH.NAME",
            ),
        ];
        for (path, expected) in cases {
            assert_eq!(refusal(&archive(&[good, (path, "x")])), format!("entry {expected}"));
        }
        let log = ("job/0000/0000/0000/0001/eventlog", "x\n");
        assert_eq!(
            refusal(&archive(&[log, good, log])),
            "entry \"job/0000/0000/0000/0001/eventlog\": it is there twice"
        );
    }

    #[test]
    fn an_incomplete_archive_is_refused() {
        let whole = archive(&[("a", "x"), ("b", &"y".repeat(2000))]);
        for length in [0, 512, 1024, 1100, 1536, 2000, whole.len() - 1024] {
            let error = refusal(&whole[..length]);
            let expected = ["it ends too early", "\"b\"", "it has no entries", "failed to read"];
            assert!(expected.iter().any(|text| error.contains(text)), "{length}: {error}");
        }
        assert!(refusal(b"\x28\xb5\x2f\xfd").contains("compression by zstd is not known"));
        refusal(b"\x1f\x8b\x08");
        assert_eq!(refusal(&b"1 0 \x1b[31m 5 4\n".repeat(100)), "it is no archive");
        let mut damaged = whole.clone();
        damaged[1024..1300].fill(0x1b);
        let error = refusal(&damaged);
        assert!(!error.contains('\x1b') && error.contains("numeric field"), "{error}");
        assert!(refusal(b"BZh9 and then something else").contains("bz"));
    }

    #[test]
    fn existing_jobs_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.tar");
        std::fs::write(&file, archive(&[("a", "x")])).unwrap();
        restore(dir.path(), &file).unwrap();
        let error = restore(dir.path(), &file).unwrap_err();
        assert!(error.to_string().contains("restore into a new state directory"), "{error}");
    }

    #[test]
    fn an_unknown_compression_is_refused_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&dir.path().join("store")).unwrap();
        let file = dir.path().join("a.tar.xz");
        let error = dump(&store, &GuestFiles::new(dir.path()), Overrides::new(), &file);
        assert!(error.unwrap_err().to_string().contains("xz"));
        assert!(!file.exists());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_damaged_archive_is_restored_whole_or_not_at_all(mut bytes: Vec<u8>, flips in proptest::collection::vec((0..3000usize, any::<u8>()), 0..4)) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("a.tar");
            let mut damaged = archive(&[("a", "x"), ("job/0000/0000/0000/0001/eventlog", "y")]);
            for (at, byte) in flips {
                let at = at % damaged.len();
                damaged[at] = byte;
            }
            bytes.extend(damaged);
            std::fs::File::create(&file).unwrap().write_all(&bytes).unwrap();
            let state = dir.path().join("s");
            std::fs::create_dir(&state).unwrap();
            let restored = match restore(&state, &file) {
                Ok(restored) => restored,
                Err(_) => {
                    // Nothing is left that would stop another try.
                    prop_assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
                    std::fs::write(&file, archive(&[("a", "x")])).unwrap();
                    restore(&state, &file).unwrap()
                }
            };
            prop_assert_eq!(content(&state).len(), restored.keys as usize);
        }
    }
}
