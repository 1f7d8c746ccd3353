//! Link settings of the addon.

fn main() {
    napi_build::setup();
    // The runtime thread outlives any JavaScript environment. Node closes an addon with the last worker
    // that loaded it; without this flag that would unmap the code under the thread's feet.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
    }
}
