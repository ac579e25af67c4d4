//! Mistakes of plugin authors and what the compiler says to them: one mistake a fixture, its text
//! pinned. `TRYBUILD=overwrite cargo test -p jobtap-tests --test compile_fail` writes the texts
//! again; read each one as an author would before you commit it.

#![allow(clippy::unwrap_used)]

#[test]
fn mistakes_are_compile_errors_that_teach() {
    // Before the cases, which run when they are dropped.
    let readme = readme_program();
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*.rs");
    cases.pass("compile-pass/*.rs");
    cases.pass(readme.path());
}

/// The README's plugin and its test as one program: it compiles, and the test passes.
fn readme_program() -> tempfile::NamedTempFile {
    let readme = std::fs::read_to_string(jobtap_tests::workspace().join("README.md")).unwrap();
    let blocks = readme.split("```rust\n").skip(1);
    let code: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
    assert_eq!(code.len(), 2, "the README has a plugin and its test");
    let mut program = code.concat().replace("#[test]\n", "");
    program.push_str("\nfn main() {\n    small_jobs_go_first();\n}\n");
    let file = tempfile::Builder::new().suffix(".rs").tempfile().unwrap();
    std::fs::write(file.path(), program).unwrap();
    file
}
