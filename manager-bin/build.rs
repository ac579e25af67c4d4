//! Prepares what the package contains beside its code: the SDK, for those tools that build managers.

#[cfg(feature = "tools")]
#[path = "build/sdk.rs"]
mod sdk;

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "tools")]
    sdk::pack()?;
    Ok(())
}
