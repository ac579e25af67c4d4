//! A disk whose syncs fail: a commit is acknowledged only when the sync that makes it durable has
//! succeeded.

use std::path::Path;
use std::process::Command;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};

use crate::store::{EmbeddedStore, Key, Op, Store};

const DIR: &str = "JOBTAP_STORE_UNSYNCED_DIR";
const EIO: u32 = 5;
/// `fsync` and `fdatasync`. The store must not use a weaker call, such as `sync_file_range`.
const SYNCS: [i64; 2] = if cfg!(target_arch = "x86_64") { [74, 75] } else { [82, 83] };

fn put(value: &str) -> Vec<Op> {
    vec![Op::Put { key: Key::checkpoint(), value: value.into() }]
}

/// Makes every sync of this process fail from now on; returns `false` if the system can't do that.
fn fail_syncs() -> bool {
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return false };
    let filter = SeccompFilter::new(
        SYNCS.map(|call| (call, Vec::new())).into(),
        SeccompAction::Allow,
        SeccompAction::Errno(EIO),
        arch,
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter_all_threads(&program).is_ok()
}

/// Not a test: the process whose syncs fail.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = EmbeddedStore::open(Path::new(&dir)).unwrap();
    store.commit(put("durable")).unwrap();
    let outcome = match fail_syncs() {
        false => "not supported".to_owned(),
        true => match store.commit(put("lost")) {
            Ok(()) => "acknowledged".to_owned(),
            Err(err) => {
                let again = store.commit(put("later")).map_err(|err| err.to_string());
                format!("refused: {err}; then {again:?}")
            }
        },
    };
    println!("outcome: {outcome}");
    // Closing the store would try to sync again.
    std::process::exit(0);
}

#[test]
fn a_commit_that_cannot_be_synced_is_not_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::unsynced::child", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, outcome) = text.split_once("outcome: ").unwrap_or_else(|| panic!("{output:?}"));
    if outcome.starts_with("not supported") {
        eprintln!("skipped: this system has no seccomp filters");
        return;
    }
    assert!(outcome.starts_with("refused: "), "{outcome}");
    assert!(outcome.contains("then Err("), "{outcome}");
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let value = store.get(&Key::checkpoint()).unwrap().unwrap();
    assert!([&b"durable"[..], b"lost"].contains(&value.as_slice()), "{value:?}");
}
