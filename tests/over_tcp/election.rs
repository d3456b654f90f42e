//! Several instances of which one works, killed, robbed of the lease and told to stop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Config};
use serde_json::json;

use crate::{PATIENCE, Program, all_bound, create_pairs, kubeconfig};

/// Asks for a page, and returns status and body.
pub fn get(url: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// Leases that end soon.
const SOON: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// Waits until the lease has a holder that will do; returns it.
async fn holder(client: &Client, name: &str, will_do: impl Fn(&str) -> bool) -> String {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let found = async {
        loop {
            let lease = leases.get_opt(name).await.expect("an answer");
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            if will_do(&holder) {
                return holder;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("somebody leads in time")
}

#[tokio::test]
async fn of_two_controllers_the_second_goes_on_when_the_first_is_killed_and_releases_when_it_is_told_to_stop()
{
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    let arguments = [&["controller", "--kubeconfig", path][..], &SOON].concat();
    let mut first = Program::start(&arguments);
    let leader = holder(&client, "pvbind-controller", |holder| !holder.is_empty()).await;
    let second = Program::start(&arguments);
    create_pairs(&client).await;
    first.0.kill().expect("it is killed");
    let killed = Instant::now();
    let next = holder(&client, "pvbind-controller", |holder| !holder.is_empty() && holder != leader).await;
    let took = killed.elapsed();
    assert!(took <= Duration::from_secs(3 + 1), "{took:?}");
    assert_ne!(next, leader);
    tokio::time::timeout(PATIENCE, all_bound(&client)).await.expect("all claims are bound in time");
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    for volume in volumes.list(&ListParams::default()).await.expect("a list").items {
        let name = volume.spec.and_then(|spec| spec.claim_ref?.name).expect("each volume is bound");
        let claim = claims.get(&name).await.expect("to a claim that exists");
        assert_eq!(claim.spec.and_then(|spec| spec.volume_name), volume.metadata.name, "{name}");
    }
    assert!(second.terminate().success());
    assert_eq!(holder(&client, "pvbind-controller", |_| true).await, "", "the lease is released");
}

#[tokio::test]
async fn a_controller_that_loses_its_lease_ends_with_exit_code_4() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    let mut controller = Program::start(&[&["controller", "--kubeconfig", path][..], &SOON].concat());
    holder(&client, "pvbind-controller", |holder| !holder.is_empty()).await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let taken = json!({"spec": {"holderIdentity": "another"}});
    let taken = leases.patch("pvbind-controller", &PatchParams::default(), &Patch::Merge(&taken)).await;
    taken.expect("it is taken away");
    let ended = tokio::task::spawn_blocking(move || {
        let status = controller.0.wait().expect("it ends");
        let mut said = String::new();
        controller.0.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        (status.code(), said)
    });
    let (code, said) = tokio::time::timeout(PATIENCE, ended).await.expect("in time").expect("no panic");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("pvbind: the lease is lost: another has taken it"), "{said}");
}

#[tokio::test]
async fn without_an_election_nobody_waits_and_no_lease_is_made() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    let controller = Program::start(&["controller", "--kubeconfig", path, "--leader-elect=false"]);
    create_pairs(&client).await;
    tokio::time::timeout(PATIENCE, all_bound(&client)).await.expect("all claims are bound in time");
    let leases: Api<Lease> = Api::all(client.clone());
    assert_eq!(leases.list(&ListParams::default()).await.expect("a list").items, []);
    assert!(controller.terminate().success());
}

#[tokio::test]
async fn of_two_extenders_only_the_one_that_leads_is_ready() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let path = file.path().to_str().expect("a plain path");
    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    let arguments = ["extender", "--kubeconfig", path, "--listen", "127.0.0.1:0", "--leader-elect"];
    let arguments = [&arguments[..], &SOON].concat();
    let mut first = Program::start(&arguments);
    let at_first = first.first_line();
    holder(&client, "pvbind-extender", |holder| !holder.is_empty()).await;
    let mut second = Program::start(&arguments);
    let at_second = second.first_line();
    let until_ready = |url: &str| {
        let start = Instant::now();
        while get(url, "/readyz").0 != 200 {
            assert!(start.elapsed() < PATIENCE, "{url} takes too long");
        }
    };
    until_ready(&at_first);
    let start = Instant::now();
    while get(&at_second, "/readyz") != (503, "this process does not lead\n".to_owned()) {
        assert!(start.elapsed() < PATIENCE, "it lists everything in time");
    }
    assert!(first.terminate().success());
    until_ready(&at_second);
    assert!(second.terminate().success());
}
