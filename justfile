# Lists the recipes.
default:
    @just --list

# Everything that is checked without running it.
check:
    cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings && RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Runs the tests whose names contain the filter; all of them without one.
test *filter:
    cargo test --workspace {{filter}}

# Runs each property over so many random worlds; one that fails is left as a file for `pvbind simulate -f`.
properties worlds="100000":
    PROPTEST_CASES={{worlds}} cargo test --release --test properties

# Shows each snapshot that differs, to accept or reject (needs cargo-insta).
review *args:
    cargo insta review {{args}}

# Rewrites what the READMEs say the examples print.
readmes:
    UPDATE_READMES=1 INSTA_UPDATE=always cargo test --test examples

# For example: just simulate -f examples/statefulset
simulate *args:
    @cargo run --quiet -- simulate {{args}}

# Takes the schemas of the kinds that the bundled API server serves from a real one (needs KUBEBUILDER_ASSETS, a folder with etcd and kube-apiserver).
schemas:
    fake-apiserver/schemas/fetch.py

# Serves the bundled API server.
apiserver *args:
    @cargo run --quiet -- apiserver {{args}}

# Schedules the pods that name it, against a cluster.
scheduler *args:
    @cargo run --quiet -- scheduler {{args}}

# Kills the API server so often while it is written to, and looks for what was acknowledged each time.
kills times="200":
    PVBIND_KILLS={{times}} cargo test -p fake-apiserver --test kill -- --nocapture

# Feeds the API server with what libFuzzer finds: patches, selectors, quantities or wire (needs cargo-fuzz and a nightly toolchain).
fuzz target seconds="300":
    cd fake-apiserver && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}

# Runs the PersistentVolume controller against a cluster.
controller *args:
    @cargo run --quiet -- controller {{args}}

# Answers a kube-scheduler that asks about volumes.
extender *args:
    @cargo run --quiet -- extender {{args}}

# Runs the extender under a real kube-scheduler (needs KUBEBUILDER_ASSETS, a folder with etcd, kube-apiserver and kube-scheduler).
kube-scheduler:
    cargo test --test extender kube_scheduler:: -- --nocapture

# Compares where upstream's controller and ours end, in every world, on real API servers (needs KUBEBUILDER_ASSETS, a folder with etcd, kube-apiserver, kube-controller-manager and kube-scheduler).
compare *args:
    cargo test --test compare -- --include-ignored {{args}}

# The same, and writes down every difference that is explained.
compare-table:
    COMPARE_TABLE="$PWD/snapshots/compare/differences.md" cargo test --test compare -- --include-ignored

# Runs two controllers at once: on the fake, and on a real API server where KUBEBUILDER_ASSETS names a folder with the programs.
together:
    cargo test --test together -- --nocapture --test-threads=1

# Measures what simulations of growing worlds cost; sizes may be given.
bench *args:
    cargo bench --bench simulate -- {{args}}

# Measures what placing pods costs in real time; numbers of pods may be given.
bench-scheduler *args:
    cargo bench --bench scheduler -- {{args}}

# Measures the bundled API server beside a real one (needs KUBEBUILDER_ASSETS, a folder with etcd and kube-apiserver); how many claims each gets may be given.
bench-fake *args:
    cargo run --release -p bench-fake -- {{args}}

# Measures binding on a real API server, upstream's programs and ours in one run (needs KUBEBUILDER_ASSETS); contests may be named. See docs/speed.md.
bench-cluster *contests:
    cargo bench --bench cluster -- {{contests}}

# Plays the end-to-end scenarios on a real control plane of this machine, which is built if `KUBEBUILDER_ASSETS` names none.
e2e *filter:
    tests/control-plane/build.sh provisioner
    KUBEBUILDER_ASSETS="${KUBEBUILDER_ASSETS:-$(tests/control-plane/build.sh)}" PVBIND_E2E_TARGET=control-plane cargo test --test e2e -- {{filter}}

# The same on the bundled API server.
e2e-fake *filter:
    PVBIND_E2E_TARGET=fake cargo test --test e2e -- {{filter}}

# The same on the cluster that a kubeconfig leads to; its own PersistentVolume controller has to be off.
e2e-kubeconfig file *filter:
    PVBIND_E2E_KUBECONFIG={{absolute_path(file)}} PVBIND_E2E_TARGET=kubeconfig cargo test --test e2e -- {{filter}}

# Plays them on a real node in a container, where the chart is applied: starts Docker if it has to, builds what is missing (see tests/node/run.sh).
e2e-docker *filter:
    tests/node/run.sh {{filter}}

# The same on a node of kind, where its image can be pulled (`PVBIND_KIND_IMAGE` names another).
e2e-kind *filter:
    tests/node/run.sh --kind {{filter}}

# Builds the image of a real node with its control plane, and prints its name; starts Docker if it has to.
node-image:
    @tests/node/docker.sh && tests/node/build.sh

# Licences, sources and duplicates of the dependencies, and advisories about them (needs cargo-deny).
deny:
    cargo deny check

# Changes the decisions, one at a time, and asks the tests to notice (needs cargo-mutants; hours). For example: just mutants -f src/decide/matching.rs
mutants *args:
    cargo mutants {{args}}

# Takes turns on a lease with a candidate of client-go (needs Go, and its module proxy or cache).
client-go:
    PVBIND_CLIENT_GO=1 cargo test --test lease client_go:: -- --nocapture

# Runs other people's clients against the bundled API server, and builds or installs those that are missing (needs Go or its module proxy, Python and its package index).
clients *filter:
    KUBEBUILDER_ASSETS="$(tests/control-plane/build.sh kube-controller-manager kube-scheduler kubectl helm client-go controller-runtime)" PVBIND_PYTHON_CLIENT=1 cargo test --test clients {{filter}}

# The same for kubectl alone, and writes down what it prints.
kubectl-page:
    KUBEBUILDER_ASSETS="$(tests/control-plane/build.sh kubectl)" UPDATE_KUBECTL=1 cargo test --test clients kubectl::

# Builds the program as one static file, and an image of it as an OCI archive, without Docker; x86_64 or aarch64 (see deploy/image/build.sh for what it needs).
image arch=arch():
    deploy/image/build.sh {{arch}}
    . "${CARGO_TARGET_DIR:-./target}/image/{{arch}}/built" && PVBIND_IMAGE="$ARCHIVE" cargo test --test deploy image::

# The same image by Docker, of the program that `just image` has built.
image-docker arch=arch():
    deploy/image/docker.sh {{arch}}

# Builds the image twice, in two folders, and compares (an opt-in test: it takes as long as two builds).
image-twice arch=arch():
    deploy/image/twice.sh {{arch}}

# Renders the plain manifests from the chart (needs helm: on the path, named by HELM, or built by `just control-plane helm`).
manifests:
    deploy/render.sh

# Tries what is shipped on real programs: the chart, the manifests, each component under exactly its permissions (needs KUBEBUILDER_ASSETS, with helm).
permissions:
    cargo test --test deploy -- --nocapture

# Builds etcd and Kubernetes' programs, or those that are named, from their Go modules into a cache; prints the folder for KUBEBUILDER_ASSETS.
control-plane *names:
    @tests/control-plane/build.sh {{names}}

