//! The chapters about other hosts: their configurations are complete for the plugins that their commands build.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

fn chapter(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)).unwrap()
}

/// The part that is followed from its first line to its last.
fn ten_minutes(chapter: &str) -> &str {
    let (_, part) = chapter.split_once("## Ten minutes").unwrap();
    part.split("\n## ").next().unwrap()
}

/// The plugins that the commands build, by `--with NAME=examples/NAME`.
fn built(part: &str) -> Vec<&str> {
    let given = part.split("--with ").skip(1);
    let named = given.filter_map(|rest| rest.split_once("=examples/").map(|(name, _)| name));
    let names: Vec<&str> = named.filter(|name| !name.contains(char::is_whitespace)).collect();
    assert_eq!(names, ["ceiling", "scratch"]);
    names
}

#[test]
fn the_commands_for_flux_configure_each_plugin_that_they_build() {
    let chapter = chapter("in-your-flux.md");
    let part = ten_minutes(&chapter);
    let loads: Vec<&str> =
        chapter.lines().filter(|line| line.contains("flux jobtap load $PWD/")).collect();
    assert_eq!(loads.len(), 2, "the first file, and the next");
    for name in built(part) {
        assert!(
            loads.iter().all(|line| line.contains(&format!(" {name}='{{"))),
            "{name}: {loads:?}"
        );
        assert!(part.contains(&format!("{name} = {{ ")), "{name} in Flux's configuration");
    }
}

#[test]
fn the_settings_for_slurm_have_a_table_for_each_plugin_that_is_built() {
    let chapter = chapter("in-your-slurm.md");
    let part = ten_minutes(&chapter);
    let (_, block) = part.split_once("```toml\n").unwrap();
    let settings: toml::Table = block.split("```").next().unwrap().parse().unwrap();
    let tables: Vec<&String> = settings["plugins"].as_table().unwrap().keys().collect();
    assert_eq!(tables, built(part));
}
