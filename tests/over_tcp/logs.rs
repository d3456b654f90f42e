//! What a process says of itself: its configuration, what it does, how it is.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use kube::{Client, Config};
use serde_json::Value;

use crate::election::get;
use crate::{PATIENCE, Program, all_bound, create_pairs, kubeconfig};

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Starts the controller with a file of options and some of them in the environment.
fn start(file: &str, port: u16) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pvbind"));
    command
        .args(["controller", "--config", file, "--executors=7"])
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG");
    command.env("PVBIND_METRICS_ADDR", format!("127.0.0.1:{port}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Program(command.spawn().expect("the program starts"))
}

#[tokio::test]
async fn a_log_in_json_names_the_configuration_with_its_sources_and_each_bind_with_its_objects() {
    let mut server = Program::start(&["apiserver", "--listen", "127.0.0.1:0"]);
    let url = server.first_line();
    let file = kubeconfig(&url);
    let (path, port) = (file.path().to_str().expect("a plain path"), free_port());
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = format!(
        "kubeconfig: {path}\nlog-format: json\nexecutors: 5\nmetrics-addr: \"off\"\nleader-elect: false\nstrict: true\n"
    );
    std::fs::write(config.path(), text).expect("it is written");
    let mut controller = start(config.path().to_str().expect("a plain path"), port);

    let client = Client::try_from(Config::new(url.parse().expect("an address"))).expect("a client");
    create_pairs(&client).await;
    tokio::time::timeout(PATIENCE, all_bound(&client)).await.expect("all claims are bound in time");
    let here = format!("127.0.0.1:{port}");
    for (page, said) in [("/healthz", "ok"), ("/livez", "ok"), ("/readyz", "ok")] {
        assert_eq!(get(&here, page), (200, said.to_owned()), "{page}");
    }
    let mut out = controller.0.stderr.take().expect("it is piped");
    assert!(controller.terminate().success());
    let mut said = String::new();
    out.read_to_string(&mut said).expect("it is text");
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();

    let configured = lines.iter().find(|line| line["fields"]["message"] == "configured").expect("it is said");
    let all: Value = configured["fields"]["configuration"].as_str().expect("text").parse().expect("JSON");
    for (name, value, source) in [
        ("executors", "7", "flag"),
        ("metrics-addr", here.as_str(), "environment"),
        ("strict", "true", "file"),
        ("leader-elect", "false", "file"),
        ("kube-api-qps", "0", "default"),
    ] {
        assert_eq!((&all[name]["value"], &all[name]["source"]), (&value.into(), &source.into()), "{name}");
    }
    let bind = lines.iter().map(|line| &line["fields"]).find(|fields| fields["claim"] == "default/c3");
    let bind = bind.unwrap_or_else(|| panic!("a bind is said: {said}"));
    let volume = bind["volume"].as_str().expect("with its volume");
    assert!(volume.starts_with('p') && !bind["uid"].is_null(), "{bind}");
    assert_eq!(bind["reason"], "Bound", "{bind}");
    assert!(bind["writes"].as_u64().is_some_and(|writes| writes > 0), "{bind}");
}

#[test]
fn what_is_wrong_with_a_file_of_options_is_exit_code_2_with_its_line() {
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = config.path().to_str().expect("a plain path");
    for (text, message) in [
        (
            "strict: true\nexecutor: 5\n",
            "line 2: executor: pvbind controller has no such option; executors was",
        ),
        ("bind-timeout: 5m\n", "line 1: bind-timeout: pvbind controller has no such option"),
        (
            "pv-recycler-minimum-timeout-nfs: 0\n",
            "line 1: pv-recycler-minimum-timeout-nfs: invalid value '0' for",
        ),
        ("leader-elect: \"no\"\n", "line 1: leader-elect: is \"no\"; write true or false"),
        ("kube-api-qps: -1\n", "line 1: kube-api-qps: invalid value '-1' for"),
        ("leader-elect-retry-period: 2\n", "line 1: leader-elect-retry-period: is 2; write a string"),
    ] {
        std::fs::write(config.path(), text).expect("it is written");
        let start_time = Instant::now();
        let mut controller = start(path, 0);
        let ended = controller.0.wait().expect("it ends");
        let mut said = String::new();
        controller.0.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
        assert_eq!(ended.code(), Some(2), "{text}: {said}");
        assert!(said.contains(&format!("pvbind: {path}, {message}")), "{text}: {said}");
        assert!(start_time.elapsed() < PATIENCE);
    }
}
