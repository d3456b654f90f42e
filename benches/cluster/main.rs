//! What binding costs on a real API server, ours beside upstream's in the same run.
//!
//! `KUBEBUILDER_ASSETS=DIR cargo bench --bench cluster [CONTEST…]` starts etcd and kube-apiserver anew for each program and each
//! contest, creates all objects, then starts the program and watches: the rate is that from the first bind to the last, so
//! that no start-up counts. Then claims (or pods) come one after the other, and the time from each one's creation to its being
//! bound is taken. Programs: upstream's kube-controller-manager with its PersistentVolume controller alone (and kube-scheduler
//! where pods are placed), with its own limits of requests and without any, and ours. Contests: `any`, 1,000 claims that may
//! have any of 1,000 volumes; `claims`, claims that name their volumes; `volumes`, volumes reserved for claims; `released`,
//! the first with 5,000 Released volumes in the way; `delayed`, 500 pods with a claim each over local volumes on 100 nodes.
//! With its own limits upstream gets a tenth of the objects, as its rate does not depend on them.
//!
//! Last comes what the API server can do at most: four patches after one another of each of 1,000 volumes, as many at once
//! as our program has jobs.

mod contest;
mod course;
mod load;
mod meter;
mod program;

use control_plane::{assets, not_run};

use contest::Contest;
use program::Who;

/// The same as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let needed = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let Some(assets) = assets(&needed) else {
        return not_run(
            "KUBEBUILDER_ASSETS names no folder with etcd and Kubernetes' programs; nothing was measured",
        );
    };
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let contests = Contest::ALL
        .into_iter()
        .filter(|contest| asked.is_empty() || asked.iter().any(|name| name == contest.name()));
    println!("{}", course::HEAD);
    for contest in contests {
        for who in [Who::Limited, Who::Unlimited, Who::Ours] {
            println!("{}", course::run(&assets, contest, who).await);
        }
    }
    println!("\nraw rate: {:.0} patches/s", course::raw(&assets).await);
}
