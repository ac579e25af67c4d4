//! The steps of a build, from the manifest to the binary.

use std::fs::File;
use std::path::{Path, PathBuf};

use jobtap_daemon::composition::{Composition, CrateInfo, Host};
use jobtap_daemon::files::{self, Access, Dir, WholeFile};
use jobtap_slurm::installed::Installed;
use rustix::fs::{FlockOperation, OFlags};

use crate::cargo::{self, Cargo, Rustc};
use crate::checksum;
use crate::compile::{self, Settings};
use crate::error::{BuildError, LockError, PlaceError};
use crate::generate::{self, COMPOSITION, Generated};
use crate::host::Library;
use crate::host_gaps;
use crate::lineup::Lineup;
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::resolve::{self, Package, Resolved};
use crate::sbom;
use crate::sdk::Sdk;
use crate::slurm::{self, SlurmError};
use crate::vendor;
use crate::verify;

/// How a manager is to be built.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The directory to which paths in the manifest are relative.
    pub base: PathBuf,
    /// The lock file; without one the build begins with the versions that the SDK was tested with.
    pub lock: Option<PathBuf>,
    /// Read the lock without changing it, since the command line adds to the manifest.
    pub keep_lock: bool,
    /// Where sources and compiled crates are cached; `None` is the user's cache directory.
    pub cache: Option<PathBuf>,
    /// Cargo's target directory; `None` is one below `cache`.
    pub target_dir: Option<PathBuf>,
    /// Refuse to change the lock.
    pub locked: bool,
    /// Don't use the network.
    pub offline: bool,
    /// A directory with the sources of all crates, which is filled when it is empty.
    pub vendor: Option<PathBuf>,
    /// Print only errors.
    pub quiet: bool,
    /// Take a release of Slurm that isn't known for the newest one that is.
    pub force_layout: bool,
}

/// A manager, or a file for another host, that was built.
#[derive(Debug)]
pub struct Built {
    /// Where it is.
    pub binary: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// What it was made of.
    pub composition: Composition,
    /// Whether it was started and its plugins were compared. A manager for another machine can't be started,
    /// and neither can a file for another host, which compares the plugins when it loads the file.
    pub verified: bool,
}

/// What is known before the compiler is started.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) lineup: Lineup,
    pub(crate) composition: Composition,
    resolved: Resolved,
    generated: Generated,
    cargo: Cargo,
    rustc: Rustc,
    static_link: bool,
    // Only a build needs the headers: what would be built can be explained without them.
    slurm: Result<Option<Installed>, SlurmError>,
    // Locked until the end, since all builds share the path of the generated crate.
    _lock: File,
}

/// The source of a crate for another host.
const LIBRARY: &str = "src/lib.rs";

/// Builds a manager into the file `output`; if that is a directory, into a file of the manager's name.
///
/// ```no_run
/// use jobtap_builder::{Manifest, Options, build};
///
/// let manifest = Manifest::read("jobtap-build.toml".as_ref())?;
/// let options = Options { base: ".".into(), ..Options::default() };
/// let built = build(&manifest, &options, "site-manager".as_ref())?;
/// println!("{} bytes, {}", built.size, built.composition.order.join(" "));
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
///
/// # Errors
/// When the manifest is refused, crates don't compile, or the binary has other plugins.
pub fn build(manifest: &Manifest, options: &Options, output: &Path) -> Result<Built, BuildError> {
    let output = output_file(output, manifest)?;
    let mut prepared = prepare(manifest, options)?;
    let slurm = std::mem::replace(&mut prepared.slurm, Ok(None))?;
    let Prepared { plan, resolved, composition, .. } = &prepared;
    if let Some(lock) = options.lock.as_ref().filter(|_| !options.keep_lock) {
        generate::write_if_changed(lock, resolved.lock.as_bytes())?;
    }
    let renamed = renamed(&prepared);
    let settings = Settings {
        target: composition.target.clone(),
        release: manifest.manager.release,
        quiet: options.quiet,
        flags: [linking(prepared.static_link), naming("--remap-path-prefix", &renamed)].concat(),
        c_flags: naming("-ffile-prefix-map", &renamed),
        environment: slurm.as_ref().map(slurm::environment).unwrap_or_default(),
    };
    let release = manifest.manager.release;
    compile::discard_stale(&prepared.cargo, plan, resolved, &composition.target, release)?;
    let made = compile::compile(&prepared.cargo, plan, resolved, &settings)?;
    // Renamed when it is complete and verified; a manager that runs from the old file isn't disturbed.
    let fresh = WholeFile::create(&output, Access::Program).map_err(BuildError::file(&output))?;
    let mut from = File::open(&made).map_err(BuildError::file(&made))?;
    std::io::copy(&mut from, &mut fresh.file()).map_err(BuildError::file(&output))?;
    let fresh = fresh.close().map_err(BuildError::file(&output))?;
    // Only its own host can load a file for another host; the adapter in the file then compares the plugins.
    let verified = prepared.rustc.host == composition.target && composition.host.is_none();
    if verified {
        verify::verify(fresh.path(), composition)?;
    }
    fresh.finish().map_err(BuildError::file(&output))?;
    let size = std::fs::metadata(&output).map_err(BuildError::file(&output))?.len();
    let composition = prepared.composition;
    Ok(Built { binary: output, size, composition, verified })
}

/// Returns the file to which the manager is written. A misspelt directory and a file that can't be replaced
/// are refused here, before minutes of compiling.
fn output_file(output: &Path, manifest: &Manifest) -> Result<PathBuf, BuildError> {
    let mut output = std::path::absolute(output).map_err(BuildError::file(output))?;
    if let Some(directory) = output.parent().filter(|directory| !directory.is_dir()) {
        let directory = directory.to_path_buf();
        return Err(PlaceError::NoDirectory { output, directory }.into());
    }
    let name = &manifest.manager.name;
    match manifest.manager.host {
        None if output.is_dir() => output.push(name),
        Some(host) if output.is_dir() => output.push(Library::for_host(host).file_name(name)),
        // Flux knows the plugin by its file's name, Slurm also by the name that the plugin itself reports.
        Some(host) => {
            let library = Library::for_host(host);
            let found = library.name_in(&output)?;
            if host != Host::Flux && found != name {
                let (name, file) = (name.clone(), library.file_name(name));
                return Err(PlaceError::OtherName { output, name, file }.into());
            }
        }
        None => {}
    }
    files::check_target(&output).map_err(BuildError::file(&output))?;
    Ok(output)
}

/// Writes the crate that [`build`] would compile, with copies of all sources that aren't in a registry, and
/// its lock.
///
/// # Errors
/// As [`build`], before compiling.
pub fn print_crate(
    manifest: &Manifest,
    options: &Options,
    directory: &Path,
) -> Result<(), BuildError> {
    generate::check_directory(directory)?;
    let prepared = prepare(manifest, options)?;
    prepared.generated.eject(&prepared.plan, directory)?;
    let text = prepared.composition.to_text()?;
    generate::write_if_changed(&directory.join(COMPOSITION), text.as_bytes())?;
    let mut flags = linking(prepared.static_link);
    let config = directory.join(".cargo/config.toml");
    let mut text = std::fs::read_to_string(&config).map_err(BuildError::file(&config))?;
    let target = generate::quoted(&prepared.composition.target);
    flags = flags.iter().map(|flag| generate::quoted(flag)).collect();
    text.push_str(&format!(
        "\n[build]\ntarget = {target}\n\n[target.{target}]\nrustflags = [{}]\n",
        flags.join(", ")
    ));
    generate::write_if_changed(&config, text.as_bytes())?;
    generate::write_if_changed(&directory.join("Cargo.lock"), prepared.resolved.lock.as_bytes())
}

/// Takes all steps before compiling. Refuses whatever the manifest and the sources show to be wrong.
pub(crate) fn prepare(manifest: &Manifest, options: &Options) -> Result<Prepared, BuildError> {
    manifest.check()?;
    let cache = match &options.cache {
        Some(cache) => std::path::absolute(cache).map_err(BuildError::file(cache))?,
        None => default_cache()?,
    };
    let host = manifest.manager.host;
    // One directory for managers and one for other hosts, each with its compiled crates: their flags for
    // the compiler differ, and cargo compiles everything again when flags differ.
    let kind = if host.is_some() { "-host" } else { "" };
    let directory = cache.join(format!("crate{kind}"));
    generate::check_directory(&directory)?;
    if let Some(vendor) = &options.vendor {
        vendor::check(vendor)?;
    }
    let sdk = match &manifest.manager.sdk {
        Some(path) => Sdk::at(&options.base.join(path))?,
        None => Sdk::embedded(&cache)?,
    };
    let plan = Plan::new(manifest.clone(), &options.base, sdk)?;
    std::fs::create_dir_all(&directory).map_err(BuildError::file(&directory))?;
    let lock = exclusive(&cache)?;
    let mut generated = generate::generate(&plan);
    generated.write(&directory)?;
    let library = directory.join(LIBRARY);
    if host.is_some() && !library.exists() {
        // Cargo needs this file to resolve the crate. Its text is known only afterwards.
        generate::write_if_changed(&library, b"")?;
    }
    first_lock(&plan, options, &directory)?;
    let target_dir =
        options.target_dir.clone().unwrap_or_else(|| cache.join(format!("target{kind}")));
    let mut cargo = Cargo {
        directory,
        target_dir: std::path::absolute(&target_dir).map_err(BuildError::file(&target_dir))?,
        toolchain: manifest.manager.toolchain.clone(),
        offline: options.offline,
        config: cargo::configs_of(&plan.base),
    };
    let rustc = cargo.rustc()?;
    let target = manifest.manager.target.clone().unwrap_or_else(|| rustc.host.clone());
    cargo.check(&rustc, &plan.sdk, &target)?;
    let vendored = options.vendor.as_ref().filter(|vendor| vendor::is_filled(vendor));
    if let Some(vendor) = vendored {
        vendor::apply(&mut cargo, vendor)?;
    }
    let resolved = resolve::resolve(&cargo, &plan, &target, options.locked)?;
    if let Some(vendor) = options.vendor.as_ref().filter(|_| vendored.is_none()) {
        vendor::fill(&cargo, vendor)?;
        vendor::apply(&mut cargo, vendor)?;
    }
    let lineup = Lineup::new(&plan, &resolved)?;
    if let Some(host) = host {
        host_gaps::check(host, &lineup.members)?;
    }
    let slurm = slurm::find(host, options.force_layout, &lineup.members);
    let mut composition = compose(&plan, &resolved, &lineup, &rustc, target)?;
    composition.slurm = slurm.as_ref().ok().and_then(Option::as_ref).map(described);
    let text = composition.to_text()?;
    generate::write_if_changed(&cargo.directory.join(COMPOSITION), text.as_bytes())?;
    if let Some(host) = host {
        let text = generate::library(host, &plan, &lineup.required());
        generate::write_if_changed(&library, text.as_bytes())?;
        generated.files.insert(LIBRARY.into(), text.into_bytes());
    }
    let is_linux = composition.target.contains("linux");
    let static_link = host.is_none() && manifest.manager.static_link.unwrap_or(is_linux);
    Ok(Prepared {
        plan,
        lineup,
        composition,
        resolved,
        generated,
        cargo,
        rustc,
        static_link,
        slurm,
        _lock: lock,
    })
}

/// The Slurm that a file is for, as `plugin available` shows it.
fn described(slurm: &Installed) -> String {
    match (slurm.is_forced, &slurm.source) {
        (true, _) => format!("{}, by force", slurm.version),
        (false, None) => format!("{}, requests only", slurm.version),
        (false, Some(_)) => slurm.version.to_string(),
    }
}

/// Returns `$JOBTAP_BUILD_CACHE`, or jobtap's directory in the user's cache directory.
fn default_cache() -> Result<PathBuf, PlaceError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let own = variable("JOBTAP_BUILD_CACHE").map(PathBuf::from);
    let xdg = || variable("XDG_CACHE_HOME").map(|cache| Path::new(&cache).join("jobtap-build"));
    let home = || variable("HOME").map(|home| Path::new(&home).join(".cache/jobtap-build"));
    own.or_else(xdg).or_else(home).ok_or(PlaceError::NoCache)
}

fn exclusive(cache: &Path) -> Result<File, BuildError> {
    let path = cache.join("lock");
    let flags = OFlags::RDWR | OFlags::CREATE;
    let opened = Dir::of_file(&path).and_then(|(dir, name)| dir.file(name, flags, 0o666));
    let file = opened.map_err(BuildError::file(&path))?;
    let locked = rustix::fs::flock(&file, FlockOperation::LockExclusive);
    locked.map_err(|errno| BuildError::File { path, reason: errno.into() })?;
    Ok(file)
}

/// Writes the first lock: the manifest's, or the versions that this program was tested with.
fn first_lock(plan: &Plan, options: &Options, directory: &Path) -> Result<(), BuildError> {
    let kept = options.lock.as_ref().filter(|lock| lock.is_file());
    if kept.is_none() && options.locked {
        return Err(LockError::Missing(options.lock.clone()).into());
    }
    let from = kept.cloned().unwrap_or_else(|| plan.sdk.root.join("Cargo.lock"));
    let to = directory.join("Cargo.lock");
    match std::fs::read(&from) {
        Ok(bytes) => generate::write_if_changed(&to, &bytes),
        Err(_) => std::fs::remove_file(&to).or(Ok(())),
    }
}

fn compose(
    plan: &Plan,
    resolved: &Resolved,
    lineup: &Lineup,
    rustc: &Rustc,
    target: String,
) -> Result<Composition, BuildError> {
    let manager = &plan.manifest.manager;
    let mut crates = Vec::new();
    for member in &lineup.members {
        let Some(package) = resolved.direct(&member.name) else { continue };
        crates.push(crate_info(plan, resolved, package)?);
    }
    let checksum = |package: &Package| {
        let known = crates.iter().find(|info| package.name == info.name);
        match known {
            Some(known) => Some(known.checksum.clone()),
            None if resolved.is_sdk(package, plan) => Some(plan.sdk.checksum.clone()),
            None => checksum::of_package(resolve::directory(package)).ok(),
        }
    };
    Ok(Composition {
        name: manager.name.clone(),
        version: manager.version.clone(),
        host: manager.host,
        slurm: None,
        sdk: plan.sdk.version.to_string(),
        sdk_checksum: plan.sdk.checksum.clone(),
        target,
        profile: if manager.release { "release" } else { "quick" }.into(),
        rustc: rustc.version.clone(),
        plugins: lineup.plugins(),
        order: lineup.order.clone(),
        required: lineup.required(),
        schedulers: lineup.schedulers(),
        config: lineup.config.clone(),
        manifest: plan.manifest.to_text()?,
        lock: resolved.lock.clone(),
        sbom: sbom::sbom(resolved, &manager.name, &manager.version, checksum),
        crates,
    })
}

fn crate_info(
    plan: &Plan,
    resolved: &Resolved,
    package: &Package,
) -> Result<CrateInfo, BuildError> {
    let entry = plan.manifest.plugins.iter().find(|entry| package.name == entry.name);
    let path = entry.and_then(|entry| entry.path.as_ref());
    let directory = entry.and_then(|entry| entry.directory.as_ref());
    let source = match (entry, path, directory) {
        (None, ..) => "sdk".to_owned(),
        (_, Some(path), _) => format!("path+{}", path.display()),
        (_, _, Some(directory)) => format!("directory+{}", directory.display()),
        _ => package.source.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    let checksum = match (resolved.checksum(package), entry) {
        (Some(checksum), _) => checksum.clone(),
        (None, None) => plan.sdk.checksum.clone(),
        (None, Some(_)) => checksum::of_package(resolve::directory(package))?,
    };
    let (name, version) = (package.name.to_string(), package.version.to_string());
    Ok(CrateInfo { name, version, source, checksum })
}

fn linking(static_link: bool) -> Vec<String> {
    let flags: &[&str] = if static_link { &["-C", "target-feature=+crt-static"] } else { &[] };
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

/// Returns the names that replace this machine's directories, so that a binary doesn't depend on them.
fn renamed(prepared: &Prepared) -> Vec<(PathBuf, &'static str)> {
    let mut renamed = vec![(prepared.cargo.target_dir.clone(), "/target")];
    renamed.extend(generate::renamed(&prepared.plan, &prepared.cargo.directory));
    // Crates of a registry are unpacked below a directory whose name has a hash in it.
    let unpacked = Cargo::home().join("registry/src");
    let registries = std::fs::read_dir(&unpacked).into_iter().flatten().flatten();
    let mut registries: Vec<PathBuf> = registries.map(|entry| entry.path()).collect();
    registries.sort();
    renamed.extend(registries.into_iter().map(|registry| (registry, "/crates")));
    renamed
}

/// Returns the compiler's flags that replace these directories by their names.
fn naming(flag: &str, renamed: &[(PathBuf, &'static str)]) -> Vec<String> {
    renamed.iter().map(|(from, to)| format!("{flag}={}={to}", from.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_output_directory_is_refused_before_compiling() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = Manifest::default();
        let made = |path: PathBuf| output_file(&path, &manifest);
        let text = made(directory.path().join("bin/manager")).unwrap_err().to_string();
        assert!(text.ends_with("/bin: make it first"), "{text}");
        made(directory.path().join("manager")).unwrap();
        let inside = made(directory.path().to_owned()).unwrap();
        assert_eq!(inside, directory.path().join(&manifest.manager.name));
        std::os::unix::fs::symlink("elsewhere", directory.path().join("link")).unwrap();
        let text = made(directory.path().join("link")).unwrap_err().to_string();
        assert!(text.contains("it is a symbolic link to elsewhere"), "{text}");
    }
}
