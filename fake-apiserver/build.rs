//! Packs the text of what is known of kinds: it would be a twentieth of the program, and is read when it is first asked for.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

const TEXT: &str = "schemas/components.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={TEXT}");
    println!("cargo::rerun-if-changed=build.rs");
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(TEXT)?)?;
    let out = env::var_os("OUT_DIR").ok_or("cargo names no folder for what is made")?;
    fs::write(PathBuf::from(out).join("components"), packed.finish()?)?;
    Ok(())
}
