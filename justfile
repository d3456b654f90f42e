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

# Serves the bundled API server.
apiserver *args:
    @cargo run --quiet -- apiserver {{args}}

# Schedules the pods that name it, against a cluster.
scheduler *args:
    @cargo run --quiet -- scheduler {{args}}

# Runs the PersistentVolume controller against a cluster.
controller *args:
    @cargo run --quiet -- controller {{args}}

# Answers a kube-scheduler that asks about volumes.
extender *args:
    @cargo run --quiet -- extender {{args}}

# Runs the extender under a real kube-scheduler (needs KUBEBUILDER_ASSETS, a folder with etcd, kube-apiserver and kube-scheduler).
kube-scheduler:
    cargo test --test extender kube_scheduler:: -- --nocapture

# Measures what simulations of growing worlds cost; sizes may be given.
bench *args:
    cargo bench --bench simulate -- {{args}}

# Measures what placing pods costs in real time; numbers of pods may be given.
bench-scheduler *args:
    cargo bench --bench scheduler -- {{args}}

# Licences, sources and duplicates of the dependencies, and advisories about them (needs cargo-deny).
deny:
    cargo deny check

# Changes the decisions, one at a time, and asks the tests to notice (needs cargo-mutants; hours). For example: just mutants -f src/decide/matching.rs
mutants *args:
    cargo mutants {{args}}

# Takes turns on a lease with a candidate of client-go (needs Go, and its module proxy or cache).
client-go:
    PVBIND_CLIENT_GO=1 cargo test --test lease client_go:: -- --nocapture
