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
use crate::installed::{C_TYPES, CType, Declared, File, Installed};

/// Marks the lines with the numbers in the assembly.
const MARK: &str = "JOBTAP-LAYOUT";

/// A member: its name for the adapter, and the expression for it in C.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    name: String,
    expression: String,
}

/// Returns the constants of all structures as Rust code.
pub(crate) fn generate(installed: &Installed, out: &Path) -> Result<String, BuildError> {
    let mut rows = Vec::new();
    for structure in C_TYPES {
        rows.push((structure, members(structure, installed)?));
    }
    let answers = ask(installed, out, &question(installed, &rows))?;
    let mut text = String::new();
    for (structure, members) in &rows {
        let c_type = structure.declared(installed.release).c_type();
        let _ = writeln!(text, "/// `{c_type}`.");
        let _ = writeln!(text, "pub(super) static {}: &[Member] = &[", structure.constant());
        for Named { name, .. } in members {
            let key = format!("{}.{name}", structure.constant());
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
            let _ =
                writeln!(text, "    Member {{ name: {name:?}, offset: {offset}, kind: {kind} }},");
        }
        text.push_str("];\n");
        // Records are checked by their sizes.
        if matches!(structure, CType::JobRecord | CType::Partition) {
            let constant = structure.constant();
            let key = format!("{constant}.sizeof");
            let size = answers.iter().find(|answer| answer.key == key);
            let size = size.map_or(0, |found| found.size);
            let _ = writeln!(text, "pub(super) const {constant}_SIZE: usize = {size};");
        }
    }
    Ok(text)
}

/// Returns the members in a declaration: the last word before each semicolon, and for a pointer to a function the name
/// in its parentheses. Arrays and bit fields are left out. Without the source, its structures have no members.
fn members(structure: CType, installed: &Installed) -> Result<Vec<Named>, BuildError> {
    let Some(file) = installed.path(structure.file(installed.release)) else {
        return Ok(Vec::new());
    };
    println!("cargo::rerun-if-changed={}", file.display());
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return Err(BuildError::File { file, error }),
    };
    let text = without_comments(&text);
    let declared = structure.declared(installed.release);
    let c_type = declared.c_type();
    let missing = || BuildError::NoDeclaration { file: file.clone(), c_type };
    let body = body(&text, declared).ok_or_else(missing)?;
    let mut members = BTreeSet::new();
    for name in names(body) {
        members.insert(Named { expression: name.clone(), name });
    }
    for (of, name, expression) in installed.release.moved {
        if *of == structure {
            members
                .insert(Named { name: (*name).to_owned(), expression: (*expression).to_owned() });
        }
    }
    match members.is_empty() {
        true => Err(BuildError::NoMembers { c_type }),
        false => Ok(members.into_iter().collect()),
    }
}

/// Returns what is between the braces of a declaration.
fn body(text: &str, declared: Declared) -> Option<&str> {
    match declared {
        // Only the end is unique: look for it first, and take the last beginning before it.
        Declared::Typedef(name) => {
            let (before, _) = text.split_once(&format!("}} {name};"))?;
            Some(before.rsplit_once("typedef struct")?.1.split_once('{')?.1)
        }
        Declared::Struct { tag, .. } => {
            let (_, after) = text.split_once(&format!("struct {tag} {{"))?;
            Some(after.split_once("\n};")?.0)
        }
    }
}

/// Returns the names of the members in the body of a declaration.
fn names(body: &str) -> BTreeSet<String> {
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
    names
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
fn question(installed: &Installed, rows: &[(CType, Vec<Named>)]) -> String {
    let release = installed.release;
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <time.h>\n",
    );
    let mut included: Vec<&str> = Vec::new();
    for (structure, _) in rows.iter().rev().filter(|(_, members)| !members.is_empty()) {
        let (File::Public(file) | File::Source(file)) = structure.file(release);
        if !included.contains(&file) {
            included.push(file);
            let _ = writeln!(text, "#include \"{file}\"");
        }
    }
    text.push_str(
        "#define IS(T, M, U) __builtin_types_compatible_p(__typeof__(((T *)0)->M), U)\n\
         #define NUMBER(T, M) (IS(T, M, uint8_t) || IS(T, M, uint16_t) || IS(T, M, uint32_t) || \
         IS(T, M, uint64_t) || IS(T, M, bool) || IS(T, M, int))\n\
         #define KIND(T, M) (IS(T, M, char *) ? 1 : IS(T, M, char **) ? 2 : IS(T, M, time_t) ? 3 : \
         NUMBER(T, M) ? 4 : 5)\n",
    );
    let _ = writeln!(
        text,
        "#define ROW(K, T, M) __asm__ volatile(\"\\n#{MARK} \" K \" %c0 %c1 %c2\" \
         :: \"i\"(offsetof(T, M)), \"i\"(sizeof(((T *)0)->M)), \"i\"(KIND(T, M)));\n\
         #define SIZE(K, T) __asm__ volatile(\"\\n#{MARK} \" K \" 0 %c0 5\" :: \"i\"(sizeof(T)));"
    );
    text.push_str("void jobtap_layout(void) {\n");
    for (structure, members) in rows.iter().filter(|(_, members)| !members.is_empty()) {
        let (constant, c_type) = (structure.constant(), structure.declared(release).c_type());
        let _ = writeln!(text, "SIZE(\"{constant}.sizeof\", {c_type})");
        for Named { name, expression } in members {
            let _ = writeln!(text, "ROW(\"{constant}.{name}\", {c_type}, {expression})");
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
fn ask(installed: &Installed, out: &Path, question: &str) -> Result<Vec<Answer>, BuildError> {
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
    let source = installed.source.as_deref();
    for directory in [out, installed.include.as_path()].into_iter().chain(source) {
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
