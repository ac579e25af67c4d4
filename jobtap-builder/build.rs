//! Prepares what the package contains beside its code: the SDK that managers are built with.

#[path = "build/sdk.rs"]
mod sdk;

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    sdk::pack()
}
