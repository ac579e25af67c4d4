//! Names with `{{tags}}`, as users give them for output files.

use crate::exec::StartJob;

/// The encodings of a job's id (RFC 19) that execution shows.
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    Dec,
    Hex,
    DotHex,
    Kvs,
    F58,
    F58Plain,
}

const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A job's id as text.
pub(super) fn job_id(id: u64, encoding: Encoding) -> String {
    match encoding {
        Encoding::Dec => id.to_string(),
        Encoding::Hex => format!("{id:#x}"),
        Encoding::DotHex => {
            let group = |shift: u32| (id >> shift) & 0xffff;
            format!(
                "{:04x}.{:04x}.{:04x}.{:04x}",
                group(48),
                group(32),
                group(16),
                group(0)
            )
        }
        Encoding::Kvs => format!("job.{}", job_id(id, Encoding::DotHex)),
        Encoding::F58 => format!("ƒ{}", base58(id)),
        Encoding::F58Plain => format!("f{}", base58(id)),
    }
}

fn base58(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = BASE58.iter().cycle().nth((number % 58) as usize);
        digits.extend(digit.map(|digit| char::from(*digit)));
        number /= 58;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// The F58 form that a job's own environment asks for: with a plain `f` where the user said that
/// `ƒ` can't be shown.
pub(super) fn f58_for(job: &StartJob) -> String {
    let ascii = job
        .env
        .iter()
        .any(|(name, _)| name == "FLUX_F58_FORCE_ASCII");
    job_id(
        job.id,
        if ascii {
            Encoding::F58Plain
        } else {
            Encoding::F58
        },
    )
}

/// Whether a template gives every task a name of its own.
pub(super) fn is_per_task(template: &str) -> bool {
    [
        "{{taskid}}",
        "{{task.id}}",
        "{{task.rank}}",
        "{{task.index}}",
    ]
    .iter()
    .any(|tag| template.contains(tag))
}

/// Fills the tags of `template` in for the task ranked `rank`. A tag that means nothing stays as it
/// is, so that the user sees it in the name.
pub(super) fn render(template: &str, job: &StartJob, rank: u32) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((tag, tail)) = after.split_once("}}") else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        match value(tag.trim(), job, rank) {
            Some(text) => out.push_str(&text),
            None => out.extend(["{{", tag, "}}"]),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn value(tag: &str, job: &StartJob, rank: u32) -> Option<String> {
    Some(match tag {
        "id" | "jobid" | "id.f58" => f58_for(job),
        "id.f58plain" => job_id(job.id, Encoding::F58Plain),
        "id.dec" => job_id(job.id, Encoding::Dec),
        "id.hex" => job_id(job.id, Encoding::Hex),
        "id.dothex" => job_id(job.id, Encoding::DotHex),
        "id.kvs" => job_id(job.id, Encoding::Kvs),
        "name" => job.name.clone(),
        "size" => job.ntasks.to_string(),
        "nnodes" => "1".to_owned(),
        "node.id" | "node.index" => "0".to_owned(),
        "node.name" => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        "taskid" | "task.id" | "task.rank" | "task.index" => rank.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    fn job() -> StartJob {
        StartJob {
            id: 6731191091817518,
            ntasks: 4,
            name: "nm".to_owned(),
            ..StartJob::default()
        }
    }

    #[test]
    fn ids_have_the_encodings_of_rfc_19() {
        let id = job().id;
        assert_eq!(job_id(id, Encoding::Dec), "6731191091817518");
        assert_eq!(job_id(id, Encoding::Hex), "0x17e9fb8df16c2e");
        assert_eq!(job_id(id, Encoding::DotHex), "0017.e9fb.8df1.6c2e");
        assert_eq!(job_id(id, Encoding::Kvs), "job.0017.e9fb.8df1.6c2e");
        assert_eq!(job_id(id, Encoding::F58), "ƒuZZybuNNy");
        assert_eq!(job_id(id, Encoding::F58Plain), "fuZZybuNNy");
        assert_eq!(job_id(0, Encoding::F58), "ƒ1");
    }

    #[test]
    fn tags_are_filled_in() {
        let cases = [
            ("plain.txt", "plain.txt"),
            ("out-{{name}}-{{id}}.txt", "out-nm-ƒuZZybuNNy.txt"),
            ("dec-{{id.dec}}.txt", "dec-6731191091817518.txt"),
            ("size-{{size}}-{{ taskid }}", "size-4-2"),
            ("{{nosuch}} {{", "{{nosuch}} {{"),
            ("}}{{name}}}}", "}}nm}}"),
        ];
        for (template, expected) in cases {
            assert_eq!(render(template, &job(), 2), expected);
        }
    }

    #[test]
    fn a_user_without_the_letter_gets_a_plain_f() {
        let env = vec![("FLUX_F58_FORCE_ASCII".to_owned(), "1".to_owned())];
        assert_eq!(
            render("{{id}}", &StartJob { env, ..job() }, 0),
            "fuZZybuNNy"
        );
    }

    proptest! {
        #[test]
        fn any_template_renders(template in "[{}a-z. é]*") {
            let _ = render(&template, &job(), 0);
        }

        #[test]
        fn text_without_tags_is_kept(text in "[^{]*") {
            prop_assert_eq!(render(&text, &job(), 0), text);
        }
    }
}
