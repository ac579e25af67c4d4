//! Inputs: those of a corpus, and random changes of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;
use std::path::{Path, PathBuf};

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;
use jobtap_fuzz::Target;
use rand::{Rng, RngExt};

/// The longest input that is made.
const LONGEST: usize = 16 << 10;

/// Texts that parsers treat in a way of their own.
const WORDS: &[&str] = &[
    "0",
    "-1",
    "1e999",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "9223372036854775808",
    "0x",
    "inf",
    "nan",
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\\u0000",
    "\\",
    "'",
    "\"\"\"",
    "[0-9]",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    ":",
    "=",
    "\n",
    "\r\n",
    "\0",
    "\u{192}",
    "\u{1f600}",
    "%",
    "#",
    "-",
    ".",
    "/",
    "..",
    "|",
    ";",
];

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut files: Vec<PathBuf> = match folder.read_dir() {
        Ok(files) => files.map(|file| file.unwrap().path()).collect(),
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A range of an input, seldom a long one.
fn range(rng: &mut impl Rng, length: usize) -> Range<usize> {
    let start = rng.random_range(0..=length);
    let most = if rng.random_ratio(1, 4) { length } else { length.min(start + 8) };
    start..rng.random_range(start..=most.max(start))
}

/// Changes an input once.
fn change(rng: &mut impl Rng, input: &mut Vec<u8>, all: &[Vec<u8>]) {
    let at = range(rng, input.len());
    let new: Vec<u8> = match rng.random_range(0..7) {
        0 => Vec::new(),
        1 => (0..rng.random_range(1..5)).map(|_| rng.random()).collect(),
        2 | 3 => WORDS[rng.random_range(0..WORDS.len())].into(),
        4 => {
            let other = &all[rng.random_range(0..all.len())];
            other[range(rng, other.len())].to_vec()
        }
        5 => input[at.clone()].repeat(rng.random_range(2..40)),
        _ => {
            let flipped = |byte: &u8| byte ^ (1 << rng.random_range(0..8));
            input[at.clone()].iter().map(flipped).collect()
        }
    };
    input.splice(at, new);
    input.truncate(LONGEST);
}

/// The inputs of a corpus, and so many changes of them.
pub(crate) fn inputs(target: &Target, count: u64, seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let all = corpus(target);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let changes = all.clone();
    let changed = (0..count).map(move |_| {
        let mut input = changes[rng.random_range(0..changes.len())].clone();
        for _ in 0..rng.random_range(1..6) {
            change(&mut rng, &mut input, &changes);
        }
        input
    });
    all.into_iter().chain(changed)
}

/// The number in a variable.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}
