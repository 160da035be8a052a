//! Asks pkg-config where libgpuhash is.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let asked = Command::new("pkg-config").args(["--variable=libdir", "gpuhash"]).output().expect("pkg-config is installed");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let folder = String::from_utf8(asked.stdout).unwrap();
    // By its SONAME: the wheel has the library under this name only.
    println!("cargo:rustc-link-arg={}/libgpuhash.so.0", folder.trim());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.trim());
}
