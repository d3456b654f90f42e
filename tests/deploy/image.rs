//! The image: the same bytes from the same input, one static program that does not run as root, small.
//!
//! The archive is written of a stand-in here; the real one is looked at where `PVBIND_IMAGE` names it (`just image` does so).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// How large the image may be, packed and unpacked.
const LARGEST: u64 = 20_000_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that has to succeed; says what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Writes an archive of a stand-in for the program, in a folder of its own.
fn archive(folder: &Path, mode: u32, umask: &str, zone: &str) -> PathBuf {
    let (binary, archive) = (folder.join("a program"), folder.join("image.tar"));
    fs::write(&binary, "no program, but packed like one\n".repeat(1000)).expect("it is written");
    fs::set_permissions(&binary, fs::Permissions::from_mode(mode)).expect("it has a mode");
    let script = root().join("deploy/image/archive.sh");
    let mut command = Command::new("bash");
    command.args(["-c", &format!("umask {umask} && exec \"$@\""), "sh"]);
    command.arg(script).arg(&binary).arg(&archive).current_dir(folder).env("TZ", zone);
    command.env("SOURCE_DATE_EPOCH", "1700000000").env("VERSION", "1.2.3").env("REVISION", "c0ffee");
    run(&mut command);
    archive
}

/// An archive, unpacked.
struct Image {
    folder: tempfile::TempDir,
    manifest: Value,
    config: Value,
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn digest(path: &Path) -> String {
    let said = run(Command::new("sha256sum").arg(path));
    format!("sha256:{}", said.split(' ').next().unwrap_or_default())
}

impl Image {
    /// Unpacks an archive; what it says of its parts has to be true.
    fn read(archive: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.path()));
        let mut image = Image { folder, manifest: Value::Null, config: Value::Null };
        assert_eq!(json(&image.path("oci-layout"))["imageLayoutVersion"], "1.0.0");
        let index = json(&image.path("index.json"));
        assert_eq!(index["manifests"].as_array().map(Vec::len), Some(1), "{index}");
        image.manifest = json(&image.blob(&index["manifests"][0]));
        image.config = json(&image.blob(&image.manifest["config"]));
        image
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file that a descriptor means, of the size and digest that it gives.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let named = descriptor["digest"].as_str().expect("a descriptor has a digest");
        let path = self.path("blobs").join(named.replace(':', "/"));
        assert_eq!(digest(&path), named);
        let size = fs::metadata(&path).expect("it is there").len();
        assert_eq!(descriptor["size"], size, "{named}");
        path
    }

    /// The layer's tar, unpacked, of the digest that the configuration gives.
    fn layer(&self) -> PathBuf {
        assert_eq!(self.manifest["layers"].as_array().map(Vec::len), Some(1), "{}", self.manifest);
        let packed = self.blob(&self.manifest["layers"][0]);
        let layer = self.path("layer.tar");
        let unpacked = Command::new("gzip").arg("-dc").arg(packed).output().expect("gzip runs");
        fs::write(&layer, unpacked.stdout).expect("it is written");
        assert_eq!(self.config["rootfs"]["diff_ids"][0], digest(&layer));
        layer
    }

    /// What holds for every image.
    fn check(&self) -> PathBuf {
        let config = &self.config["config"];
        assert_eq!(config["User"], "65532:65532");
        assert_eq!(config["Entrypoint"], serde_json::json!(["/pvbind"]));
        let layer = self.layer();
        let listed = run(Command::new("tar").args(["--numeric-owner", "-tvf"]).arg(&layer));
        let lines: Vec<&str> = listed.lines().collect();
        assert!(matches!(lines[..], [line] if line.starts_with("-rwxr-xr-x 0/0 ")), "{listed}");
        assert!(listed.trim_end().ends_with(" pvbind"), "{listed}");
        layer
    }
}

#[test]
fn the_same_program_gives_the_same_bytes_wherever_it_is_packed() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let first = archive(one.path(), 0o700, "077", "America/Lima");
    let second = archive(other.path(), 0o644, "022", "Asia/Tokyo");
    assert_eq!(digest(&first), digest(&second));
}

#[test]
fn an_archive_is_what_both_containerd_and_docker_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), 0o755, "022", "UTC");
    let image = Image::read(&archive);
    let layer = image.check();
    let packed = run(Command::new("tar").arg("-xOf").arg(&layer).arg("pvbind"));
    assert!(packed.starts_with("no program, but packed like one\n"));
    let labels = &image.config["config"]["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], "1.2.3");
    assert_eq!(labels["org.opencontainers.image.revision"], "c0ffee");
    assert_eq!(image.config["created"], "2023-11-14T22:13:20Z");
    let named = &json(&image.path("index.json"))["manifests"][0]["annotations"];
    assert_eq!(named["io.containerd.image.name"], "docker.io/library/pvbind:1.2.3");
    let old = &json(&image.path("manifest.json"))[0];
    assert_eq!(old["RepoTags"], serde_json::json!(["pvbind:1.2.3"]));
    let path = |descriptor: &Value| {
        format!("blobs/{}", descriptor["digest"].as_str().expect("a digest").replace(':', "/"))
    };
    assert_eq!(old["Config"], path(&image.manifest["config"]));
    assert_eq!(old["Layers"], serde_json::json!([path(&image.manifest["layers"][0])]));
}

#[test]
fn docker_builds_the_same_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Image::read(&archive(folder.path(), 0o755, "022", "UTC"));
    let file = fs::read_to_string(root().join("deploy/image/Dockerfile")).expect("it is there");
    let instruction = |name: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("the Dockerfile has no {name}")).trim()
    };
    let config = &image.config["config"];
    assert_eq!(instruction("FROM "), "scratch");
    assert_eq!(config["User"], instruction("USER "));
    assert_eq!(config["WorkingDir"], instruction("WORKDIR "));
    assert_eq!(config["Entrypoint"].to_string(), instruction("ENTRYPOINT "));
    let labels = config["Labels"].as_object().expect("labels");
    // What built the program is known to the script alone.
    let labels: BTreeSet<&str> =
        labels.keys().map(String::as_str).filter(|key| key.starts_with("org.")).collect();
    let words = file.split_whitespace().filter(|word| word.starts_with("org."));
    let same: BTreeSet<&str> = words.filter_map(|word| word.split('=').next()).collect();
    assert_eq!(labels, same);
    for fixed in ["title", "description", "source", "licenses"] {
        let value = &config["Labels"][format!("org.opencontainers.image.{fixed}")];
        assert!(file.contains(&format!("org.opencontainers.image.{fixed}={value}")), "{fixed}: {value}");
    }
}

/// Fails unless a program runs without anything else: no interpreter is asked for, no library.
fn check_static(program: &[u8]) {
    let number = |at: usize, size: usize| {
        let bytes = program[at..at + size].iter().rev();
        bytes.fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    assert_eq!(&program[..6], b"\x7fELF\x02\x01", "an ELF file of 64 bits, the lowest byte first");
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    for header in (0..count).map(|index| headers + index * size) {
        // PT_INTERP.
        assert_ne!(number(header, 4), 3, "the program asks for an interpreter: it is not static");
        // PT_DYNAMIC, of a program that is moved about: it names no library (DT_NEEDED).
        if number(header, 4) == 2 {
            let (start, length) = (number(header + 8, 8), number(header + 32, 8));
            let tags = (start..start + length).step_by(16).map(|at| number(at, 8));
            assert!(tags.take_while(|tag| *tag != 0).all(|tag| tag != 1), "the program needs a library");
        }
    }
}

#[test]
fn the_image_that_was_built_is_small_and_has_one_static_program() {
    let Some(archive) = std::env::var_os("PVBIND_IMAGE").map(PathBuf::from) else {
        // What a test that passes prints by `eprintln` nobody sees.
        let told = "NOT RUN: PVBIND_IMAGE names no archive; no image was looked at (`just image` builds one)";
        return writeln!(std::io::stderr(), "{told}").expect("somebody hears");
    };
    let packed = fs::metadata(&archive).expect("PVBIND_IMAGE names a file").len();
    let image = Image::read(&archive);
    let layer = image.check();
    let unpacked = fs::metadata(&layer).expect("it is there").len();
    assert!(packed < LARGEST && unpacked < LARGEST, "{packed} bytes, {unpacked} unpacked");
    let program = Command::new("tar").arg("-xOf").arg(&layer).arg("pvbind").output().expect("tar runs");
    check_static(&program.stdout);
    let home = std::env::var("HOME").expect("a home");
    for folder in [root().to_str().expect("a plain path"), &format!("{home}/.cargo")] {
        let known = program.stdout.windows(folder.len()).any(|bytes| bytes == folder.as_bytes());
        assert!(!known, "the program knows of {folder}: built elsewhere, it would be another");
    }
}
