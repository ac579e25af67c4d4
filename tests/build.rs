//! Extracts the plugin and its test from the README, so that `tests/first_steps.rs` can run them.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = root.join("README.md");
    println!("cargo::rerun-if-changed={}", readme.display());
    let readme = std::fs::read_to_string(readme)?;
    let blocks = readme.split("```rust\n").skip(1);
    let code: String = blocks.filter_map(|block| block.split("```").next()).collect();
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("readme.rs"), code)?;
    Ok(())
}
