//! Determines the layout of Slurm's structures by means of the C compiler.
//!
//! The compiler translates a function whose assembly contains each number as a line of text. So nothing
//! is run, and a cross compiler reports the layout for its target.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::BuildError;
use crate::headers::Headers;

/// A structure: the constant that gets its members, the name of its type in C, the header that declares it,
/// and the texts at which its declaration begins and ends.
struct Structure {
    constant: &'static str,
    c_type: &'static str,
    file: File,
    begin: &'static str,
    end: &'static str,
}

enum File {
    Include(&'static str),
    Source(&'static str),
}

const STRUCTURES: &[Structure] = &[
    Structure {
        constant: "JOB_DESCRIPTOR",
        c_type: "job_desc_msg_t",
        file: File::Include("slurm/slurm.h"),
        begin: "typedef struct job_descriptor {",
        end: "} job_desc_msg_t;",
    },
    Structure {
        constant: "JOB_RECORD",
        c_type: "job_record_t",
        file: File::Source("src/slurmctld/slurmctld.h"),
        begin: "struct job_record {",
        end: "\n};",
    },
    Structure {
        constant: "JOB_DETAILS",
        c_type: "struct job_details",
        file: File::Source("src/slurmctld/slurmctld.h"),
        begin: "struct job_details {",
        end: "\n};",
    },
    Structure {
        constant: "JOB_ARRAY",
        c_type: "job_array_struct_t",
        file: File::Source("src/slurmctld/slurmctld.h"),
        begin: "typedef struct job_array_struct {",
        end: "} job_array_struct_t;",
    },
    Structure {
        constant: "QOS",
        c_type: "slurmdb_qos_rec_t",
        file: File::Include("slurm/slurmdb.h"),
        begin: "{",
        end: "} slurmdb_qos_rec_t;",
    },
    Structure {
        constant: "PARTITION",
        c_type: "part_record_t",
        file: File::Source("src/slurmctld/slurmctld.h"),
        begin: "typedef struct {",
        end: "} part_record_t;",
    },
    Structure {
        constant: "JOB_ENV",
        c_type: "job_env_t",
        file: File::Source("src/slurmd/slurmd/slurmd.h"),
        begin: "typedef struct {",
        end: "} job_env_t;",
    },
    Structure {
        constant: "SLURM_CONF",
        c_type: "slurm_conf_t",
        file: File::Include("slurm/slurm.h"),
        begin: "typedef struct {",
        end: "} slurm_conf_t;",
    },
    Structure {
        constant: "SLURMD_CONF",
        c_type: "slurmd_conf_t",
        file: File::Source("src/slurmd/slurmd/slurmd.h"),
        begin: "typedef struct slurmd_config {",
        end: "} slurmd_conf_t;",
    },
    Structure {
        constant: "PREP_CALLBACKS",
        c_type: "prep_callbacks_t",
        file: File::Source("src/common/prep.h"),
        begin: "typedef struct {",
        end: "} prep_callbacks_t;",
    },
];

/// Marks the lines with the numbers in the assembly.
const MARK: &str = "JOBTAP-LAYOUT";

/// Returns the constants of all structures as Rust code.
pub(crate) fn generate(headers: &Headers, out: &Path) -> Result<String, BuildError> {
    let mut rows = Vec::new();
    for structure in STRUCTURES {
        let members = members(structure, headers)?;
        if members.is_empty() {
            return Err(BuildError::NoMembers { c_type: structure.c_type });
        }
        rows.push((structure, members));
    }
    let answers = ask(headers, out, &question(&rows))?;
    let mut text = String::new();
    for (structure, members) in &rows {
        let _ = writeln!(text, "/// `{}`.", structure.c_type);
        let _ = writeln!(text, "pub(super) static {}: &[Member] = &[", structure.constant);
        for member in members {
            let key = format!("{}.{member}", structure.constant);
            let answer = answers.iter().find(|answer| answer.key == key);
            let Some(Answer { offset, size, kind, .. }) = answer else {
                return Err(BuildError::NoAnswer { member: key });
            };
            let kind = match kind {
                1 => "Kind::Text".to_owned(),
                2 => "Kind::Texts".to_owned(),
                3 => "Kind::Time".to_owned(),
                4 => format!("Kind::Number({size})"),
                _ => "Kind::Other".to_owned(),
            };
            let _ = writeln!(
                text,
                "    Member {{ name: {member:?}, offset: {offset}, kind: {kind} }},"
            );
        }
        text.push_str("];\n");
    }
    Ok(text)
}

/// Returns the names of the members in a declaration: the last word before each semicolon, and for a pointer to a
/// function the name in its parentheses. Arrays and bit fields are left out.
fn members(structure: &Structure, headers: &Headers) -> Result<Vec<String>, BuildError> {
    let file = match structure.file {
        File::Include(file) => headers.include.join(file),
        File::Source(file) => headers.source.join(file),
    };
    println!("cargo::rerun-if-changed={}", file.display());
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return Err(BuildError::File { file, error }),
    };
    let text = without_comments(&text);
    let missing = || BuildError::NoDeclaration { file: file.clone(), c_type: structure.c_type };
    // If the end of the declaration contains the type's name, look for the end first and take the last possible
    // beginning before it: only the end is unique then.
    let body = if structure.end.contains(' ') {
        let (before, _) = text.split_once(structure.end).ok_or_else(missing)?;
        before.rsplit_once(structure.begin).ok_or_else(missing)?.1
    } else {
        let (_, after) = text.split_once(structure.begin).ok_or_else(missing)?;
        after.split_once(structure.end).ok_or_else(missing)?.0
    };
    let mut names = BTreeSet::new();
    for declaration in body.split(';') {
        let declaration = declaration.trim();
        let function = || {
            let (_, rest) = declaration.split_once("(*")?;
            rest.split_once(')').map(|(name, _)| name.to_owned())
        };
        if declaration.contains(['[', ':', '{', '}', '#']) {
            continue;
        }
        if declaration.contains('(') {
            names.extend(function());
            continue;
        }
        let word = declaration.rsplit([' ', '\t', '\n', '*']).next().unwrap_or_default();
        let is_name =
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name && declaration != word {
            names.insert(word.to_owned());
        }
    }
    Ok(names.into_iter().collect())
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, comment)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    let line = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_owned();
    kept.lines().map(|text| line(text) + "\n").collect()
}

/// Returns the C file whose assembly contains the numbers.
fn question(rows: &[(&Structure, Vec<String>)]) -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <time.h>\n\
         #include \"src/common/prep.h\"\n#include \"slurm/slurmdb.h\"\n\
         #define IS(T, M, U) __builtin_types_compatible_p(__typeof__(((T *)0)->M), U)\n\
         #define NUMBER(T, M) (IS(T, M, uint8_t) || IS(T, M, uint16_t) || IS(T, M, uint32_t) || \
         IS(T, M, uint64_t) || IS(T, M, bool) || IS(T, M, int))\n\
         #define KIND(T, M) (IS(T, M, char *) ? 1 : IS(T, M, char **) ? 2 : IS(T, M, time_t) ? 3 : \
         NUMBER(T, M) ? 4 : 5)\n",
    );
    let _ = writeln!(
        text,
        "#define ROW(K, T, M) __asm__ volatile(\"\\n#{MARK} \" K \".\" #M \" %c0 %c1 %c2\" \
         :: \"i\"(offsetof(T, M)), \"i\"(sizeof(((T *)0)->M)), \"i\"(KIND(T, M)));"
    );
    text.push_str("void jobtap_layout(void) {\n");
    for (structure, members) in rows {
        for member in members {
            let Structure { constant, c_type, .. } = structure;
            let _ = writeln!(text, "ROW(\"{constant}\", {c_type}, {member})");
        }
    }
    text.push_str("}\n");
    text
}

struct Answer {
    key: String,
    offset: usize,
    size: usize,
    kind: u8,
}

/// Compiles the C file to assembly and reads the numbers.
fn ask(headers: &Headers, out: &Path, question: &str) -> Result<Vec<Answer>, BuildError> {
    let write = |name: &str, text: &str| {
        let file = out.join(name);
        match fs::write(&file, text) {
            Ok(()) => Ok(file),
            Err(error) => Err(BuildError::File { file, error }),
        }
    };
    // The source includes config.h. Nothing that `configure` writes there affects these structures.
    write("config.h", "#define HAVE_CONFIG_H 1\n")?;
    let file = write("layout.c", question)?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-std=gnu11", "-w", "-O0", "-S", "-o", "-"]).arg(&file);
    // The public headers come before the source's own copy of them, which lacks the version.
    for directory in [out, headers.include.as_path(), headers.source.as_path()] {
        command.arg("-I").arg(directory);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Err(BuildError::NoCompiler { compiler, error }),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = said.lines().take(10).collect();
        return Err(BuildError::Compiler { compiler, said: first.join("\n") });
    }
    let assembly = String::from_utf8_lossy(&output.stdout);
    let answers = assembly.lines().filter_map(|line| {
        let mut words = line.trim().strip_prefix('#')?.strip_prefix(MARK)?.split_whitespace();
        Some(Answer {
            key: words.next()?.to_owned(),
            offset: words.next()?.parse().ok()?,
            size: words.next()?.parse().ok()?,
            kind: words.next()?.parse().ok()?,
        })
    });
    Ok(answers.collect())
}
