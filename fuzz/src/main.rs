//! Runs one target under libFuzzer, as `.ci/fuzz` calls it: `JOBTAP_FUZZ_TARGET` names the target, and
//! `BOLERO_LIBFUZZER_ARGS` has libFuzzer's own options. Without a target, lists them all.
//!
//! Beside what the target asserts, an input may take 64 times its own size of memory and what the target's row allows, and
//! a second of the processor's time.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bolero::TargetLocation;
use jobtap_fuzz::{TARGETS, Target, target};
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How many bytes a byte of the input may take.
const FOLD: usize = 64;

const LONGEST: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let Ok(name) = std::env::var("JOBTAP_FUZZ_TARGET") else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let written = writeln!(io::stdout(), "{}", names.join("\n"));
        return ExitCode::from(u8::from(written.is_err()));
    };
    let Some(target) = target(&name) else {
        let _ = writeln!(io::stderr(), "{name}: there is no such target");
        return ExitCode::FAILURE;
    };
    // What is made once, such as tables and a runtime, isn't an input's.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    for file in corpus.read_dir().into_iter().flatten().flatten() {
        (target.run)(&std::fs::read(file.path()).unwrap_or_default());
    }
    let location = TargetLocation {
        package_name: env!("CARGO_PKG_NAME"),
        manifest_dir: env!("CARGO_MANIFEST_DIR"),
        module_path: module_path!(),
        file: file!(),
        line: line!(),
        item_path: "jobtap_fuzz::main",
        test_name: Some(name),
    };
    bolero::test(location).for_each(|bytes: &[u8]| measured(target, bytes));
    ExitCode::SUCCESS
}

/// Runs a target and asserts that it keeps to its bounds.
fn measured(target: &Target, bytes: &[u8]) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let begun = clock_gettime(ClockId::ThreadCPUTime);
    (target.run)(bytes);
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let used = MEMORY.peak_usage().saturating_sub(before);
    let most = FOLD * bytes.len() + target.memory;
    assert!(used <= most, "{} bytes take {used} bytes of memory, above {most}", bytes.len());
    let time = Duration::try_from(ended - begun).unwrap_or_default();
    assert!(time <= LONGEST, "{} bytes take {time:?}", bytes.len());
}
