//! Decides whether the server is well, check by check. Looks at nothing but whether it is about to stop: what
//! is served at all from one process has started. Answers to `k8s.io/apiserver/pkg/server/healthz`.

use std::fmt::Write;

use crate::answer::Answer;
use crate::request::Request;
use crate::server::Server;

/// The checks, under upstream's names.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
/// What only readiness asks besides.
const READY: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];

pub(super) fn answer(server: &Server, request: &Request, endpoint: &str, check: &[&str]) -> Answer {
    let more = if endpoint == "readyz" { &READY[..] } else { &[] };
    let checks: Vec<&str> = CHECKS.iter().chain(more).copied().collect();
    let fails = |check: &str| check == "shutdown" && server.is_stopping();
    if let [one] = check {
        return match checks.iter().find(|check| *check == one) {
            Some(check) if fails(check) => {
                Answer::text(500, format!("internal server error: {check} is in progress\n"))
            }
            Some(_) => Answer::text(200, "ok"),
            None => Answer::no_page(),
        };
    }
    if !check.is_empty() {
        return Answer::no_page();
    }
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for check in checks {
        let bad = fails(check) && !excluded.contains(&check);
        failed |= bad;
        let result = match (excluded.contains(&check), bad) {
            (true, _) => format!("[+]{check} excluded: ok\n"),
            (_, true) => format!("[-]{check} failed: reason withheld\n"),
            _ => format!("[+]{check} ok\n"),
        };
        report.push_str(&result);
    }
    let end = if failed { "failed" } else { "passed" };
    // Writing to a string can't fail.
    let _ = writeln!(report, "{endpoint} check {end}");
    match (failed, request.query.has("verbose")) {
        (true, _) => Answer::text(500, report),
        (false, true) => Answer::text(200, report),
        (false, false) => Answer::text(200, "ok"),
    }
}
