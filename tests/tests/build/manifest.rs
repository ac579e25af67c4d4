//! `jobtap build` changes and explains a manifest without building it.

use jobtap_tests::site::Site;

const TEXT: &str = "# Ours.\n[manager]\nname = \"site-manager\" # short\n";

#[test]
fn add_and_remove_keep_the_comments_of_a_manifest() {
    let site = Site::with_plugins();
    site.write("jobtap-build.toml", TEXT);
    site.build("add deadline=deadline --before probe").ok();
    site.build("add probe@0.1 --directory crates").ok();
    site.build("remove .dependency-after").ok();
    let expected = "# Ours.\n[manager]\nname = \"site-manager\" # short\n\
        without = [\".dependency-after\"]\n\n\
        [[plugin]]\nname = \"deadline\"\npath = \"deadline\"\nbefore = [\"probe\"]\n\n\
        [[plugin]]\nname = \"probe\"\nversion = \"0.1\"\ndirectory = \"crates\"\n";
    assert_eq!(site.read("jobtap-build.toml"), expected);
    // Not all names of builtins begin with a dot.
    site.build("remove submit-hold").ok();
    site.build("add submit-hold").ok();
    assert_eq!(site.read("jobtap-build.toml"), expected);
    // Its place was declared relative to `.dependency-after`, which is left out now; the place stays the same.
    let all = site.build("explain").ok();
    let place = |name: &str| all.find(&format!("\n{name} (")).unwrap();
    assert!(place(".limit-duration") < place(".dependency-singleton"), "{all}");
    assert!(place(".dependency-singleton") < place(".begin-time"), "{all}");
    let twice = site.build("add deadline=deadline");
    assert!(twice.stderr.contains("plugin \"deadline\" is in the manifest"), "{twice:?}");
    let unknown = site.build("remove prob");
    assert!(unknown.stderr.contains("did you mean \"probe\"?"), "{unknown:?}");
    for (words, said) in [
        ("add .depndency-after", "; did you mean \".dependency-after\"?"),
        ("add ../probe", "../probe: neither NAME@VERSION nor NAME=PATH nor a builtin"),
        ("add probe@1 -f other.toml", "there is no other.toml: make a manifest with `jobtap new"),
        ("-f other.toml", "there is no other.toml: make a manifest with `jobtap new"),
    ] {
        let refused = site.build(words).stderr;
        assert!(refused.contains(said), "{words}: {refused}");
    }
    site.build("remove probe").ok();
    site.build("remove deadline").ok();
    site.build("add .dependency-after").ok();
    assert_eq!(site.read("jobtap-build.toml").trim(), format!("{TEXT}without = []").trim());
}

#[test]
fn explain_shows_the_order_of_plugins_with_reasons() {
    let site = Site::with_plugins();
    let text = "[manager]\nbuiltins = [\".priority-default\"]\n\
        [[plugin]]\nname = \"probe\"\nversion = \"0.1\"\ndirectory = \"crates\"\nafter = [\"deadline\"]\n\
        [[plugin]]\nname = \"deadline\"\npath = \"deadline\"\n";
    site.write("jobtap-build.toml", text);
    let all = site.build("explain").ok();
    let expected = "\
.priority-default (jobtap-builtins 0.2.0, sdk)
    builtin: before all plugins of other crates
deadline (deadline 0.1.0, path+deadline)
    asked for by [[plugin]] \"deadline\"
    else by its place in the manifest
probe (probe 0.1.0, directory+crates)
    asked for by [[plugin]] \"probe\"
    after deadline: the manifest says so
    else by its place in the manifest
";
    assert!(all.starts_with(expected), "{all}");
    assert!(all.contains("\n.dependency-after is left out"), "{all}");
    let one = site.build("explain deadline").ok();
    assert!(one.starts_with("deadline (") && !one.contains("probe"), "{one}");
    let none = site.build("explain dedline");
    assert!(none.stderr.contains("would have no plugin \"dedline\""), "{none:?}");
}

#[cfg(unix)]
#[test]
fn an_old_compiler_is_refused_before_it_compiles_anything() {
    use std::os::unix::fs::PermissionsExt;

    let site = Site::new();
    site.write("jobtap-build.toml", TEXT);
    site.write(
        "rustc",
        "#!/bin/sh\necho 'rustc 1.80.0 (051478957 2024-07-21)'\necho 'host: here'\n",
    );
    let rustc = site.path("rustc");
    std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = site.command();
    command.env("JOBTAP_BUILD_CACHE", jobtap_tests::site::cache()).env("RUSTC", rustc);
    let output = jobtap_tests::run(command.args(["build", "--offline"]));
    assert_eq!(output.code, 1, "{output:?}");
    let said =
        "rustc 1.80.0 (051478957 2024-07-21) is too old: the SDK 0.2.0 of this program needs";
    assert!(output.stderr.contains(said), "{output:?}");
}

#[test]
fn the_toolchain_of_the_manifest_is_used() {
    // rustup sets this variable for the programs that it starts; without rustup there is nothing to test.
    let Ok(toolchain) = std::env::var("RUSTUP_TOOLCHAIN") else { return };
    let site = Site::new();
    site.write("jobtap-build.toml", &format!("[manager]\ntoolchain = \"{toolchain}\"\n"));
    // A `rust-toolchain.toml` beside the manifest is ignored.
    site.write("rust-toolchain.toml", "[toolchain]\nchannel = \"nobody-has-this\"\n");
    site.build("--print-crate ejected").ok();
    let file = site.read("ejected/rust-toolchain.toml");
    assert_eq!(file, format!("[toolchain]\nchannel = \"{toolchain}\"\n"));
    let mut rustc = std::process::Command::new("rustup");
    let version = jobtap_tests::run(rustc.args(["run", &toolchain, "rustc", "--version"])).ok();
    let composition = site.read("ejected/composition.txt");
    assert!(composition.contains(&format!("\"rustc\":\"{version}\"")), "{version}");
}

#[test]
fn a_plugin_that_names_a_checkout_is_built_with_it() {
    let site = Site::with_plugins();
    let checkout = jobtap_tests::workspace();
    let manifest = site.read("deadline/Cargo.toml");
    let path = checkout.join("jobtap-core");
    let named = format!("jobtap-core = {{ path = \"{}\" }}", path.display());
    site.write("deadline/Cargo.toml", &manifest.replace("jobtap-core = \"0.2\"", &named));
    let explain = "explain deadline --with deadline=deadline";
    let refused = site.build(explain).stderr;
    assert!(refused.contains("or build with --sdk "), "{refused}");
    let told = site.build(&format!("{explain} --sdk {}", checkout.display())).ok();
    assert!(told.starts_with("deadline (deadline 0.1.0, "), "{told}");
    // The same checkout through a symbolic link.
    std::os::unix::fs::symlink(&checkout, site.path("jobtap")).unwrap();
    let named = "jobtap-core = { path = \"../jobtap/jobtap-core\" }";
    site.write("deadline/Cargo.toml", &manifest.replace("jobtap-core = \"0.2\"", named));
    let told = site.build(&format!("{explain} --sdk jobtap")).ok();
    assert!(told.starts_with("deadline (deadline 0.1.0, "), "{told}");
}
