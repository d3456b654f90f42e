//! A program on client-go, beside this: its informers in both ways to begin, its typed clients in JSON and in protocol buffers, its
//! dynamic client, its candidates for a lease. What it finds wrong it says, and ends with.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use control_plane::Ending;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;

use crate::stage::{Stage, eventually};

/// The program, if it was built; what is left out, if not.
fn program(what: &str) -> Option<PathBuf> {
    let built = control_plane::assets(&["client-go"]).map(|folder| folder.join("client-go"));
    if built.is_none() {
        control_plane::not_run(&format!(
            "KUBEBUILDER_ASSETS names no folder with the program on client-go, which tests/control-plane/build.sh client-go builds; \
             {what} not tried on the bundled API server"
        ));
    }
    built
}

/// Plays one of the program's stories to its end.
#[track_caller]
fn play(stage: &Stage, program: &Path, story: &str, form: &str, environment: &[(&str, &str)]) {
    let kubeconfig = format!("-kubeconfig={}", stage.kubeconfig());
    let output = Command::new("timeout")
        .args(["300".as_ref(), program.as_os_str()])
        .args([&kubeconfig, &format!("-form={form}"), story])
        .envs(environment.iter().copied())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(20).collect();
    assert!(output.status.success(), "{story} {form} {environment:?}: {}: {last:#?}", output.status);
}

async fn informers(form: &str, streams: bool) {
    let Some(program) = program("its informers were") else { return };
    let stage = Stage::start(&["--admin"]).await;
    let environment = [
        ("KUBE_FEATURE_WatchListClient", if streams { "true" } else { "false" }),
        // It lists whatever a stream brought once more, and panics if that is something else.
        ("KUBE_WATCHLIST_INCONSISTENCY_DETECTOR", if streams { "true" } else { "false" }),
    ];
    play(&stage, &program, "informers", form, &environment);
}

#[tokio::test]
async fn its_informers_that_begin_with_streams_of_protocol_buffers_hold_what_the_server_holds() {
    informers("protobuf", true).await;
}

#[tokio::test]
async fn its_informers_that_begin_with_streams_of_json_hold_what_the_server_holds() {
    informers("json", true).await;
}

#[tokio::test]
async fn its_informers_that_begin_with_lists_in_protocol_buffers_hold_what_the_server_holds() {
    informers("protobuf", false).await;
}

#[tokio::test]
async fn its_informers_that_begin_with_lists_in_json_hold_what_the_server_holds() {
    informers("json", false).await;
}

#[tokio::test]
async fn its_typed_clients_say_the_same_in_every_form() {
    let Some(program) = program("its typed clients were") else { return };
    let stage = Stage::start(&["--admin"]).await;
    play(&stage, &program, "typed", "", &[]);
}

#[tokio::test]
async fn its_dynamic_client_reads_and_writes_what_has_no_type() {
    let Some(program) = program("its dynamic client was") else { return };
    let stage = Stage::start(&["--admin"]).await;
    play(&stage, &program, "dynamic", "", &[]);
}

/// Waits until a candidate leads; says how often the lease has changed hands.
async fn led(leases: &Api<Lease>, identity: &str) -> i32 {
    eventually(&format!("{identity} leads"), async || {
        let spec = leases.get_opt("it").await.expect("leases can be read")?.spec?;
        (spec.holder_identity.as_deref() == Some(identity))
            .then(|| spec.lease_transitions.unwrap_or_default())
    })
    .await
}

#[tokio::test]
async fn its_candidates_take_turns_on_a_lease_and_tell_of_it() {
    let Some(program) = program("its candidates were") else { return };
    let mut stage = Stage::start(&[]).await;
    let client = stage.client().await;
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let events: Api<Event> = Api::default_namespaced(client.clone());
    // One in each form, and one that is not asked to end.
    for (identity, form) in [("one", "json"), ("two", "protobuf"), ("three", "")] {
        let kubeconfig = format!("-kubeconfig={}", stage.kubeconfig());
        let arguments =
            [kubeconfig, format!("-identity={identity}"), format!("-form={form}"), "candidate".to_owned()];
        stage.run(identity, &program, &arguments);
        if identity == "one" {
            assert_eq!(led(&leases, "one").await, 0);
        } else if identity == "two" {
            // It lets go of the lease, so nobody waits until that has run out.
            let Ending::Exited(status) = stage.stop("one") else { panic!("it ends") };
            assert!(ExitStatus::success(&status), "{status}");
            assert_eq!(led(&leases, "two").await, 1);
        } else {
            stage.kill("two");
            assert_eq!(led(&leases, "three").await, 2);
        }
        eventually(&format!("{identity} tells that it leads"), async || {
            let list = events.list(&ListParams::default()).await.expect("events can be listed");
            let told =
                list.items.into_iter().filter(|event| event.reason.as_deref() == Some("LeaderElection"));
            let wanted = format!("{identity} became leader");
            told.into_iter().any(|event| event.message.as_deref() == Some(&wanted)).then_some(())
        })
        .await;
    }
}
