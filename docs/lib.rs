//! The guide for plugin authors, whose chapters are in `src/`, and the tests that keep it in step with the code.
//!
//! Every Rust block of a chapter is a test here, the table of topics is generated, and every test or fixture that a
//! chapter names exists.

#[cfg(test)]
mod c_interface;
#[cfg(test)]
mod config_keys;
#[cfg(test)]
mod generated;
pub mod hosts;
#[cfg(test)]
mod misuse;
pub mod slurm_fields;
pub mod table;
#[cfg(test)]
mod unsafe_code;

macro_rules! chapters {
    ($($name:ident = $file:literal;)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("src/", $file))]
            mod $name {}
        )*

        /// The chapters whose blocks are tested, as file names in `src/`.
        pub const CHAPTERS: &[&str] = &[$($file),*];
    };
}

chapters! {
    introduction = "introduction.md";
    first_plugin = "first-plugin.md";
    moving_from_mf_priority = "moving-from-mf-priority.md";
    four_plugins = "four-plugins.md";
    topics = "topics.md";
    topics_table = "topics-table.md";
    handlers = "handlers.md";
    handlers_in_full = "handlers-in-full.md";
    configuration = "configuration.md";
    configuration_keys = "configuration-keys.md";
    data = "data.md";
    async_handlers = "async.md";
    services = "services.md";
    policies = "policies.md";
    queues = "queues.md";
    failures = "failures.md";
    testing = "testing.md";
    restart = "restart.md";
    order = "order.md";
    service = "service.md";
    resources = "resources.md";
    allocation = "allocation.md";
    elastic = "elastic.md";
    many_tasks = "many-tasks.md";
    batch = "batch.md";
    a_day = "a-day.md";
    accounting = "accounting.md";
    records = "records.md";
    trust = "trust.md";
    threat_model = "threat-model.md";
    http = "http.md";
    a_jobs_trip = "a-jobs-trip.md";
    performance = "performance.md";
    performance_figures = "performance-figures.md";
    performance_diary = "performance-diary.md";
    flux_commands = "flux-commands.md";
    flux_options = "flux-options.md";
    laboratory = "laboratory.md";
    custom_managers = "custom-managers.md";
    slurm = "slurm.md";
    slurm_lua = "slurm-lua.md";
    slurm_prep = "slurm-prep.md";
    in_your_flux = "in-your-flux.md";
    in_your_slurm = "in-your-slurm.md";
    hosts_table = "hosts.md";
    from_c = "from-c.md";
    misuse_table = "misuse.md";
    rust_mistakes = "rust-mistakes.md";
    from_slurm = "from-slurm.md";
    slurm_fields_table = "slurm-fields.md";
    stability = "stability.md";
    glossary = "glossary.md";
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::CHAPTERS;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn chapter(name: &str) -> String {
        fs::read_to_string(root().join("docs/src").join(name)).unwrap()
    }

    #[test]
    fn every_chapter_is_in_the_summary_and_is_tested() {
        let summary = chapter("SUMMARY.md");
        for name in CHAPTERS {
            assert!(summary.contains(&format!("({name})")), "{name} is not in SUMMARY.md");
        }
        for file in fs::read_dir(root().join("docs/src")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let is_no_chapter = ["SUMMARY.md", "images"].contains(&&*name);
            assert!(is_no_chapter || CHAPTERS.contains(&&*name), "{name} is not tested");
        }
    }

    #[test]
    fn the_oldest_rust_and_the_version_are_those_that_are_named() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let value = |key: &str| {
            let line = manifest.lines().find(|line| line.starts_with(&format!("{key} = ")));
            line.unwrap().split('"').nth(1).unwrap().to_owned()
        };
        let (rust, version) = (value("rust-version"), value("version"));
        assert!(chapter("stability.md").contains(&format!("{rust} at present")), "{rust}");
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        assert!(readme.contains(&format!("Rust toolchain ({rust} or later)")), "{rust}");
        let changes = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
        assert!(changes.contains(&format!("\n## {version} - ")), "{version}");
    }

    #[test]
    fn links_between_chapters_lead_somewhere() {
        for name in CHAPTERS {
            let text = chapter(name);
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                if target.starts_with("http") {
                    continue;
                }
                let file = if file.is_empty() { name } else { file };
                let path = root().join("docs/src").join(file);
                assert!(path.exists(), "{name}: {target}");
                if !anchor.is_empty() {
                    let headings = fs::read_to_string(path).unwrap();
                    let mut slugs = headings.lines().filter_map(slug);
                    assert!(slugs.any(|slug| slug == anchor), "{name}: {target}");
                }
            }
        }
    }

    /// The anchor that mdBook gives a heading.
    fn slug(line: &str) -> Option<String> {
        let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        Some(kept.collect::<String>().replace(' ', "-"))
    }

    /// Some blocks can't be doctests, since they are tests themselves or need the whole manager.
    #[test]
    fn a_block_that_is_not_compiled_here_is_part_of_a_file_that_is() {
        let files = ["examples/site-manager/src/main.rs", "docs/tests/first_plugin.rs"];
        let mut files = files.map(|file| fs::read_to_string(root().join(file)).unwrap());
        // The chapter shows the manager with its own plugin instead of the example's.
        let plugins = "use deadline as _;\nuse jobtap_builtins as _;";
        let here = "use jobtap_builtins as _;\nuse small_jobs_first as _;";
        files[0] = files[0].replace(plugins, here);
        for name in CHAPTERS {
            for block in chapter(name).split("```rust,ignore\n").skip(1) {
                let block = block.split("```").next().unwrap();
                assert!(files.iter().any(|file| file.contains(block)), "{name}:\n{block}");
            }
        }
    }
}
