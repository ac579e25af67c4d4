//! `jobtap build` finds the Slurm that a file is for, and says before it compiles anything what is missing.

use std::path::Path;

use jobtap_tests::Output;
use jobtap_tests::site::Site;

/// A plugin that changes requests by the partitions.
const PLUGIN: &str = "use jobtap_core::prelude::*;\n\
    #[derive(Default)]\n\
    struct Large;\n\
    #[jobtap_plugin(name = \"large\")]\n\
    impl Large {\n\
    \x20   #[on(\"slurm.job_submit\")]\n\
    \x20   fn submit(&self, mut desc: Descriptor<'_>, partitions: Partitions<'_>) {\n\
    \x20       desc.partition = partitions.first().and_then(|first| first.name.clone());\n\
    \x20   }\n\
    }\n";

/// A site with that plugin, and the public headers of a Slurm.
fn site(version: &str) -> Site {
    let site = Site::new();
    site.plugin("ceiling");
    let manifest = site.read("ceiling/Cargo.toml").replace("\"ceiling\"", "\"large\"");
    site.write("large/Cargo.toml", &manifest);
    site.write("large/src/lib.rs", PLUGIN);
    let number = format!("#define SLURM_VERSION_NUMBER {version}\n");
    site.write("include/slurm/slurm_version.h", &number);
    site.write("include/slurm/slurm.h", "");
    site
}

fn build(site: &Site, words: &str, source: Option<&Path>) -> Output {
    let include = site.path("include");
    let mut variables = vec![("SLURM_INCLUDE_DIR", &*include)];
    variables.extend(source.map(|source| ("SLURM_SOURCE_DIR", source)));
    let words = format!("--host slurm-job-submit -o job_submit_site.so --with large=large {words}");
    site.build_with(&words, &variables)
}

#[test]
fn a_missing_source_is_named_with_the_plugin_that_needs_it() {
    // A version that no directory of sources has.
    let output = build(&site("0x180bfe"), "", None);
    assert_eq!(output.code, 1);
    for part in [
        "plugin \"large\" (",
        "/large/src/lib.rs:7: submit, the partitions) needs structures of slurmctld's",
        "the source of exactly Slurm 24.11.254",
        "Debian, Ubuntu",
        "Red Hat with OpenHPC",
        "https://download.schedmd.com/slurm/slurm-24.11.254.tar.bz2",
    ] {
        assert!(output.stderr.contains(part), "{part}: {output:?}");
    }
}

#[test]
fn headers_that_do_not_fit_each_other_are_refused() {
    let site = site("0x1a0505");
    site.write("source/src/slurmctld/slurmctld.h", "");
    site.write("source/META", "  Version:\t26.05.3\n");
    let output = build(&site, "", Some(&site.path("source")));
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("are of Slurm 26.05.5, and the source in "), "{output:?}");
    assert!(output.stderr.contains("of \"26.05.3\": take both of one version"), "{output:?}");
}

#[test]
fn a_release_that_is_not_known_is_only_tried_by_force() {
    let site = site("0x1a0b01");
    let output = build(&site, "", None);
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.contains("are of Slurm 26.11.1, and this version of jobtap"),
        "{output:?}"
    );
    // The next step is then refused, for the lack of a source.
    let output = build(&site, "--force-layout", None);
    assert!(output.stderr.contains("the source of exactly Slurm 26.11.1"), "{output:?}");
}

/// The file would be refused only when the site's slurmctld starts.
#[test]
fn headers_of_another_version_than_the_daemons_are_refused() {
    let headers = ["/usr/include", "/usr/local/include"];
    if !headers.iter().any(|dir| Path::new(dir).join("slurm/slurm.h").exists()) {
        eprintln!("skipped: there are no headers of Slurm");
        return;
    }
    let site = site("0x1a0505");
    site.write("bin/scontrol", "#!/bin/sh\necho slurm 23.11.254\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(site.path("bin/scontrol"), executable).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(site.path("bin")).chain(std::env::split_paths(&path));
    let path = std::path::PathBuf::from(std::env::join_paths(path).unwrap());

    let words = "--host slurm-job-submit -o job_submit_site.so --with=large=large";
    let output = site.build_with(words, &[("PATH", &path)]);
    assert_eq!(output.code, 1);
    for part in
        ["the Slurm of this machine is 23.11.254, which would refuse the file", "SLURM_INCLUDE_DIR"]
    {
        assert!(output.stderr.contains(part), "{part}: {output:?}");
    }
    // Headers that are named may be those of another machine.
    let include = site.path("include");
    let output = site.build_with(words, &[("PATH", &path), ("SLURM_INCLUDE_DIR", &include)]);
    assert!(output.stderr.contains("the source of exactly Slurm 26.05.5"), "{output:?}");
}
