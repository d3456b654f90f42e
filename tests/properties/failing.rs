//! The world behind a failure, as a file that `pvbind simulate -f` reads.
//!
//! Random worlds hold what an API server would never have stored. Where the property fails without that as well, the
//! file holds the world without it; else the world as it failed, and the message says what `simulate` will refuse.
//! The file lies in the folder that `PVBIND_FAILING` names, else in the target folder's one for tests.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use pvbind::cluster::Object;
use pvbind::manifest;
use pvbind::simulate::{Input, simulate};

use crate::quantity::Exact;
use crate::render;
use crate::valid::valid;
use crate::world::World;

/// What a property is about: a world, perhaps with choices beside it, or no world at all.
pub trait Failing: Clone + Debug {
    /// The world.
    fn world(&self) -> Option<&World>;
    /// The same choices about another world.
    fn about(&self, world: World) -> Self;
}

impl Failing for World {
    fn world(&self) -> Option<&World> {
        Some(self)
    }

    fn about(&self, world: World) -> Self {
        world
    }
}

impl Failing for Exact {
    fn world(&self) -> Option<&World> {
        None
    }

    fn about(&self, _: World) -> Self {
        self.clone()
    }
}

impl<A: Failing, B: Clone + Debug> Failing for (A, B) {
    fn world(&self) -> Option<&World> {
        self.0.world()
    }

    fn about(&self, world: World) -> Self {
        (self.0.about(world), self.1.clone())
    }
}

impl<A: Failing, B: Clone + Debug, C: Clone + Debug> Failing for (A, B, C) {
    fn world(&self) -> Option<&World> {
        self.0.world()
    }

    fn about(&self, world: World) -> Self {
        (self.0.about(world), self.1.clone(), self.2.clone())
    }
}

impl<A: Failing, B: Clone + Debug, C: Clone + Debug, D: Clone + Debug> Failing for (A, B, C, D) {
    fn world(&self) -> Option<&World> {
        self.0.world()
    }

    fn about(&self, world: World) -> Self {
        (self.0.about(world), self.1.clone(), self.2.clone(), self.3.clone())
    }
}

/// Where the file of the property goes that runs in this thread.
fn path(folder: Option<PathBuf>) -> PathBuf {
    let folder = folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let property = std::thread::current().name().unwrap_or("main").replace("::", "-");
    folder.join(format!("failing-{property}.yaml"))
}

/// Leaves the world behind a failure as a file, and says where.
pub fn leave<T: Failing>(smallest: &T, property: &impl Fn(T)) -> String {
    let folder = std::env::var_os("PVBIND_FAILING").map(PathBuf::from);
    leave_at(&path(folder), smallest, property)
}

fn leave_at<T: Failing>(path: &Path, smallest: &T, property: &impl Fn(T)) -> String {
    let Some(world) = smallest.world() else { return String::new() };
    let storable = valid(world);
    let fails = catch_unwind(AssertUnwindSafe(|| property(smallest.about(storable.clone())))).is_err();
    let left = if fails { &storable } else { world };
    if let Err(error) = write(path, left) {
        return format!("\nthe world could not be written to {}: {error}", path.display());
    }
    let shown = path.display();
    match read(path) {
        Ok(()) => format!("\npvbind simulate -f {shown}"),
        Err(why) => format!("\nthe world is in {shown}, though no API server would store it: {why}"),
    }
}

fn write(path: &Path, world: &World) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, render::manifests(&world.objects))
}

/// Has `simulate` read the file; whatever becomes of the world there is another matter.
fn read(path: &Path) -> Result<(), String> {
    let paths = [path.to_owned()];
    let loaded = manifest::load(&paths, "default", std::io::empty).map_err(|error| error.to_string())?;
    let input = Input { loaded, ..Input::default() };
    simulate(input).map(|_| ()).map_err(|error| error.to_string())
}

/// The objects that `simulate` reads from the file.
fn objects(path: &Path) -> Vec<Object> {
    let loaded = manifest::load(&[path.to_owned()], "default", std::io::empty).expect("good manifests");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    loaded.documents.into_iter().map(|document| render::object(document.object)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::world::worlds;

    fn random(count: usize) -> Vec<World> {
        let mut runner = TestRunner::deterministic();
        let strategy = worlds();
        (0..count).map(|_| strategy.new_tree(&mut runner).expect("a world").current()).collect()
    }

    #[test]
    fn a_failing_world_is_left_as_a_file_that_simulate_reads_to_the_same_objects() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("made/on/the/way/world.yaml");
        for world in random(100).into_iter().filter(|world| !world.objects.is_empty()) {
            let said = leave_at(&path, &(world.clone(), true), &|_| panic!("it always fails"));
            assert_eq!(said, format!("\npvbind simulate -f {}", path.display()), "{world:?}");
            let expected = valid(&world).objects;
            assert_eq!(objects(&path), expected);
            assert_eq!(
                expected.iter().map(Object::key).collect::<Vec<_>>(),
                world.objects.iter().map(Object::key).collect::<Vec<_>>(),
                "no object is left out"
            );
        }
    }

    #[test]
    fn what_fails_only_with_what_no_server_stores_is_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("world.yaml");
        let odd = random(200).into_iter().find(|world| valid(world) != *world).expect("most are odd");
        let text = render::manifests(&odd.objects);
        let same = odd.clone();
        let said = leave_at(&path, &odd, &move |world: World| assert!(world != same, "only this one fails"));
        assert!(said.contains("no API server would store it"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
    }

    #[test]
    fn a_property_that_fails_says_where_its_world_is() {
        let failed = catch_unwind(|| {
            crate::check(50, &(worlds(), any::<bool>()), |(world, _)| assert!(world.objects.len() < 3));
        });
        let failed = failed.expect_err("some worlds have three objects");
        let said = failed.downcast_ref::<String>().expect("a text");
        let file = said.rsplit("pvbind simulate -f ").next().expect("its end");
        assert!(Path::new(file).is_file(), "{said}");
        assert_eq!(objects(Path::new(file)).len(), 3, "it is the smallest one");
        std::fs::remove_file(file).expect("it is there");
    }

    #[test]
    fn the_folder_is_the_one_that_is_asked_for() {
        let asked = path(Some(PathBuf::from("/asked/for")));
        let name = "failing-failing-tests-the_folder_is_the_one_that_is_asked_for.yaml";
        assert_eq!(asked, Path::new("/asked/for").join(name));
        assert_eq!(path(None), Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    }
}
