//! Tests what the build script finds in headers that the tests write.

#![allow(clippy::unwrap_used)]

// The build script calls functions that these tests don't.
#[allow(dead_code)]
#[path = "../build/error.rs"]
mod error;
#[allow(dead_code, clippy::print_stdout)]
#[path = "../build/headers.rs"]
mod headers;
#[allow(dead_code, clippy::print_stdout)]
#[path = "../build/layout.rs"]
mod layout;
#[allow(dead_code, clippy::print_stdout)]
#[path = "../build/version.rs"]
mod version;

use std::fs;

use headers::Headers;
use tempfile::TempDir;

/// Writes headers with all structures. The description of a request has a few members in them.
fn tree(number: &str, version: &str) -> (TempDir, Headers) {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("slurm/slurm_version.h", &format!("#define SLURM_VERSION_NUMBER {number}\n"));
    write(
        "slurm/slurm.h",
        "#include <stdint.h>\n#include <stdbool.h>\n#include <time.h>\n\
         typedef struct { int other; } another_t;\n\
         typedef struct job_descriptor { /* char *no; */\n\
         \tchar *account; // uint16_t nor_this;\n\
         \tuint16_t flag:1;\n\tuint32_t pair[2];\n\
         \tbool yes;\n\tuint64_t\tmemory;\n\tchar **environment;\n\
         \tconst void *opaque;\n\ttime_t begin;\n} job_desc_msg_t;\n\
         typedef struct {\n\ttime_t last_update;\n\tuint16_t prolog_epilog_timeout;\n} slurm_conf_t;\n",
    );
    write("slurm/slurmdb.h", "typedef struct {\n\tchar *name;\n} slurmdb_qos_rec_t;\n");
    write(
        "src/slurmctld/slurmctld.h",
        "#include \"slurm/slurm.h\"\n\
         struct job_record {\n\tuint32_t job_id;\n\tstruct job_details *details;\n};\n\
         typedef struct job_record job_record_t;\n\
         struct job_details {\n\tchar *work_dir;\n};\n\
         typedef struct job_array_struct {\n\tuint32_t task_cnt;\n} job_array_struct_t;\n\
         typedef struct {\n\tchar *name;\n} part_record_t;\n",
    );
    write(
        "src/slurmd/slurmd/slurmd.h",
        "typedef struct {\n\tint (*join)(uint32_t job);\n\tuint32_t jobid;\n} job_env_t;\n\
         typedef struct slurmd_config {\n\tchar *node_name;\n} slurmd_conf_t;\n",
    );
    write(
        "src/common/prep.h",
        "#include \"src/slurmctld/slurmctld.h\"\n#include \"src/slurmd/slurmd/slurmd.h\"\n\
         typedef struct {\n\tvoid (*prolog_slurmctld)(int rc);\n} prep_callbacks_t;\n",
    );
    write("META", &format!("  Name:\tslurm\n  Version:\t{version}\n"));
    let at = || root.path().to_owned();
    let headers = Headers { include: at(), source: at() };
    (root, headers)
}

#[test]
fn members_are_where_the_compiler_puts_them() {
    let (root, headers) = tree("0x160508", "22.05.8");
    assert_eq!(version::read_number(&headers).unwrap(), 0x16_05_08);
    let text = layout::generate(&headers, root.path()).unwrap();
    let of = |name: &str| -> Vec<String> {
        let begin = format!("pub(super) static {name}: &[Member] = &[");
        let (_, rest) = text.split_once(&begin).unwrap();
        rest.split("];").next().unwrap().lines().map(|line| line.trim().to_owned()).collect()
    };
    // A bit field has no address, and arrays aren't read.
    assert_eq!(
        of("JOB_DESCRIPTOR"),
        [
            "",
            "Member { name: \"account\", offset: 0, kind: Kind::Text },",
            "Member { name: \"begin\", offset: 48, kind: Kind::Time },",
            "Member { name: \"environment\", offset: 32, kind: Kind::Texts },",
            "Member { name: \"memory\", offset: 24, kind: Kind::Number(8) },",
            "Member { name: \"opaque\", offset: 40, kind: Kind::Other },",
            "Member { name: \"yes\", offset: 20, kind: Kind::Number(1) },",
        ]
    );
    assert!(
        of("JOB_ENV")
            .contains(&"Member { name: \"jobid\", offset: 8, kind: Kind::Number(4) },".into())
    );
    assert_eq!(of("PREP_CALLBACKS").len(), 2);
}

#[test]
fn a_version_that_was_not_tried_is_refused() {
    let (_root, headers) = tree("0x170b04", "23.11.4");
    let error = version::read_number(&headers).unwrap_err().to_string();
    assert!(
        error.contains("is of Slurm 23.11, and this version of jobtap-slurm knows 22.05: "),
        "{error}"
    );
}

#[test]
fn headers_of_two_releases_are_refused() {
    let (_root, headers) = tree("0x160508", "22.05.11");
    let error = version::read_number(&headers).unwrap_err().to_string();
    assert!(error.contains("are of Slurm 22.05.8, and the source in "), "{error}");
    assert!(
        error.ends_with("of \"22.05.11\": take both of one release, that of your daemons"),
        "{error}"
    );
}

#[test]
fn a_structure_that_is_not_there_is_named() {
    let (root, headers) = tree("0x160508", "22.05.8");
    fs::write(root.path().join("src/slurmd/slurmd/slurmd.h"), "typedef struct {\n} other_t;\n")
        .unwrap();
    let error = layout::generate(&headers, root.path()).unwrap_err().to_string();
    assert!(error.ends_with("slurmd.h: no declaration of job_env_t"), "{error}");
}
