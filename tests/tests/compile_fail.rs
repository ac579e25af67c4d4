//! Mistakes of plugin authors and what the compiler says to them: one mistake a fixture, its text
//! pinned. `TRYBUILD=overwrite cargo test -p jobtap-tests --test compile_fail` writes the texts
//! again; read each one as an author would before you commit it.

#[test]
fn mistakes_are_compile_errors_that_teach() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*.rs");
    cases.pass("compile-pass/*.rs");
}
