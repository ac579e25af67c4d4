//! Tests what the build script finds in headers that the tests write.

#![allow(clippy::unwrap_used)]

// The build script calls functions that these tests don't.
#[allow(dead_code)]
#[path = "../build/error.rs"]
mod error;
#[allow(dead_code, clippy::print_stdout)]
#[path = "../build/layout.rs"]
mod layout;

use std::fs;

use jobtap_core::slurm::Release as OfSdk;
use jobtap_slurm::installed;
use jobtap_slurm::installed::{Installed, RELEASES, Search, Source, Version};
use tempfile::TempDir;

/// Writes headers with all structures where a release has them. The description of a request has a few members.
fn tree(version: Version, of_source: &str) -> (TempDir, Search) {
    let root = tempfile::tempdir().unwrap();
    // The newest release stands for one that isn't known yet.
    let release = RELEASES.iter().find(|release| release.number == version.release());
    let release = release.or(RELEASES.last()).unwrap();
    let write = |name: &str, text: &str| {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = fs::read_to_string(&file).unwrap_or("#pragma once\n".into());
        fs::write(file, before + text).unwrap();
    };
    let number = version.number();
    write("slurm/slurm_version.h", &format!("#define SLURM_VERSION_NUMBER {number:#08x}\n"));
    let has_step = !release.moved.is_empty();
    let id = if has_step { "slurm_step_id_t step_id" } else { "uint32_t job_id" };
    write(
        "slurm/slurm.h",
        &format!(
            "#include <stdint.h>\n#include <stdbool.h>\n#include <time.h>\n\
             typedef struct {{ int other; }} another_t;\n\
             typedef struct {{ uint64_t sluid; uint32_t job_id; }} slurm_step_id_t;\n\
             typedef struct job_descriptor {{ /* char *no; */\n\
             \tchar *account; // uint16_t nor_this;\n\
             \tuint16_t flag:1;\n\tuint32_t pair[2];\n\
             \tbool yes;\n\tuint64_t\tmemory;\n\tchar **environment;\n\
             \tconst void *opaque;\n\ttime_t begin;\n\t{id};\n}} job_desc_msg_t;\n\
             typedef struct {{\n\ttime_t last_update;\n}} slurm_conf_t;\n"
        ),
    );
    write("slurm/slurmdb.h", "typedef struct {\n\tchar *name;\n} slurmdb_qos_rec_t;\n");
    write("src/slurmctld/slurmctld.h", "#include \"slurm/slurm.h\"\n");
    let details = match release.job_details.c_type() {
        "job_details_t" => "typedef struct {\n\tchar *work_dir;\n} job_details_t;\n",
        _ => "struct job_details {\n\tchar *work_dir;\n};\n",
    };
    write(
        release.job_record,
        &format!(
            "#include \"slurm/slurm.h\"\n{details}\
             struct job_record {{\n\tuint32_t magic;\n\tuint32_t job_id;\n}};\n\
             typedef struct job_record job_record_t;\n\
             typedef struct job_array_struct {{\n\tuint32_t task_cnt;\n}} job_array_struct_t;\n"
        ),
    );
    write(release.partition, "typedef struct part_record {\n\tchar *name;\n} part_record_t;\n");
    let id = if has_step { "slurm_step_id_t step_id" } else { "uint32_t jobid" };
    write(
        "src/slurmd/slurmd/slurmd.h",
        &format!(
            "#include \"slurm/slurm.h\"\n\
             typedef struct {{\n\tint (*join)(uint32_t job);\n\t{id};\n}} job_env_t;\n\
             typedef struct slurmd_config {{\n\tchar *node_name;\n}} slurmd_conf_t;\n"
        ),
    );
    write(
        release.prep,
        "typedef struct {\n\tvoid (*prolog_slurmctld)(int rc);\n} prep_callbacks_t;\n",
    );
    write("META", &format!("  Name:\tslurm\n  Version:\t{of_source}\n"));
    let at = || root.path().to_owned();
    let search = Search { include: Some(at()), source: Source::In(at()), is_forced: false };
    (root, search)
}

const V22_05_8: Version = Version::from_number(0x16_05_08);

/// The generated members of one structure.
fn members(text: &str, name: &str) -> Vec<String> {
    let begin = format!("pub(super) static {name}: &[Member] = &[\n");
    let (_, rest) = text.split_once(&begin).unwrap();
    rest.split("];").next().unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn members_are_where_the_compiler_puts_them() {
    let (root, search) = tree(V22_05_8, "22.05.8");
    let installed = Installed::find(&search).unwrap();
    assert_eq!(installed.version, V22_05_8);
    let text = layout::generate(&installed, root.path()).unwrap();
    // A bit field has no address, and arrays aren't read.
    assert_eq!(
        members(&text, "JOB_DESCRIPTOR"),
        [
            "Member { name: \"account\", offset: 0, kind: Kind::Text },",
            "Member { name: \"begin\", offset: 48, kind: Kind::Time },",
            "Member { name: \"environment\", offset: 32, kind: Kind::Texts },",
            "Member { name: \"job_id\", offset: 56, kind: Kind::Number(4) },",
            "Member { name: \"memory\", offset: 24, kind: Kind::Number(8) },",
            "Member { name: \"opaque\", offset: 40, kind: Kind::Other },",
            "Member { name: \"yes\", offset: 20, kind: Kind::Number(1) },",
        ]
    );
    let job_id = "Member { name: \"jobid\", offset: 8, kind: Kind::Number(4) },".to_owned();
    assert!(members(&text, "JOB_ENV").contains(&job_id));
    assert_eq!(members(&text, "PREP_CALLBACKS").len(), 1);
    assert!(text.contains("const JOB_RECORD_SIZE: usize = 8;"), "{text}");
}

#[test]
fn each_release_is_read_by_its_own_headers() {
    assert_eq!(RELEASES.len(), OfSdk::ALL.len());
    for (release, of_sdk) in RELEASES.iter().zip(OfSdk::ALL) {
        assert_eq!(release.name(), of_sdk.name());
        let (major, minor) = release.number;
        let version = Version::from_number(major << 16 | minor << 8 | 3);
        let (root, search) = tree(version, &version.to_string());
        let installed = Installed::find(&search).unwrap();
        assert_eq!(installed.version.to_string(), format!("{release}.3", release = of_sdk.name()));
        let text = layout::generate(&installed, root.path()).unwrap();
        for (structure, member) in
            [("JOB_DESCRIPTOR", "job_id"), ("JOB_ENV", "jobid"), ("JOB_DETAILS", "work_dir")]
        {
            let found = members(&text, structure);
            let begin = format!("Member {{ name: {member:?}, ");
            assert!(found.iter().any(|line| line.starts_with(&begin)), "{of_sdk} {found:?}");
        }
    }
}

#[test]
fn without_the_source_only_the_public_structures_are_known() {
    let (root, search) = tree(V22_05_8, "22.05.8");
    fs::remove_dir_all(root.path().join("src")).unwrap();
    let error = Installed::find(&search).unwrap_err().to_string();
    assert!(error.ends_with(": there is no src/slurmctld/slurmctld.h"), "{error}");
    let installed = Installed::find(&Search { source: Source::NotNeeded, ..search }).unwrap();
    let text = layout::generate(&installed, root.path()).unwrap();
    assert_eq!(members(&text, "JOB_DESCRIPTOR").len(), 7);
    assert!(members(&text, "JOB_RECORD").is_empty());
}

#[test]
fn a_release_that_is_not_known_is_only_taken_by_force() {
    let (root, search) = tree(Version::from_number(0x1a_0b_01), "26.11.1");
    let error = Installed::find(&search).unwrap_err().to_string();
    let known = "are of Slurm 26.11.1, and this version of jobtap knows 22.05, 23.02, 23.11, 24.05, \
                 24.11, 25.05, 25.11, 26.05: ";
    assert!(error.contains(known), "{error}");
    assert!(error.contains("--force-layout"), "{error}");
    let forced = Installed::find(&Search { is_forced: true, ..search }).unwrap();
    assert!(forced.is_forced);
    layout::generate(&forced, root.path()).unwrap();
}

#[test]
fn headers_of_two_releases_are_refused() {
    let (_root, search) = tree(V22_05_8, "22.05.11");
    let error = Installed::find(&search).unwrap_err().to_string();
    assert!(error.contains("are of Slurm 22.05.8, and the source in "), "{error}");
    assert!(
        error.ends_with("of \"22.05.11\": take both of one version, that of your daemons"),
        "{error}"
    );
}

#[test]
fn a_structure_that_is_not_there_is_named() {
    let (root, search) = tree(V22_05_8, "22.05.8");
    fs::write(root.path().join("src/slurmd/slurmd/slurmd.h"), "typedef struct {\n} other_t;\n")
        .unwrap();
    let installed = Installed::find(&search).unwrap();
    let error = layout::generate(&installed, root.path()).unwrap_err().to_string();
    assert!(error.ends_with("slurmd.h: no declaration of job_env_t"), "{error}");
}

#[test]
fn commands_print_versions_in_several_ways() {
    let version = |text: &str| Version::of_command(text).map(|version| version.to_string());
    assert_eq!(version("slurm 24.11.5\n").as_deref(), Some("24.11.5"));
    assert_eq!(version("slurm-wlm 22.05.8").as_deref(), Some("22.05.8"));
    assert_eq!(version("slurm 23.02.0-0rc1").as_deref(), Some("23.02.0"));
    assert_eq!(version("slurm"), None);
    assert_eq!(version("slurm 24.999.5"), None);
}
