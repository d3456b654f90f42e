//! The report as a person likes to read it: one line that says it all, tables, and then what is not right and why.
//!
//! Decides layout, wording and colour, and what is left out because it is empty or the same everywhere. Never decides
//! what happened: whatever it prints is in the report.

mod layout;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use serde_json::Value;

use self::layout::{Cell, Paint, cell, clean, duration, line, phase};
use super::report::{Reason, Report};
use crate::manifest::field::text;

/// How the table is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour it, for terminals only.
    pub color: bool,
    /// At which column sentences are wrapped; not at all without it. Tables are never cut.
    pub width: Option<usize>,
}

/// The report as text, ending in a line feed.
#[must_use]
pub fn render(report: &Report, style: Style) -> String {
    let page = Page { report, style, objects: index(report), namespaces: namespaces(report) > 1 };
    let mut out = String::new();
    page.headline(&mut out);
    page.claims(&mut out);
    page.volumes(&mut out);
    page.pods(&mut out);
    page.why(&mut out);
    page.warnings(&mut out);
    out
}

/// Kind, namespace and name.
type Name<'r> = (&'r str, &'r str, &'r str);

struct Page<'r> {
    report: &'r Report,
    style: Style,
    objects: HashMap<Name<'r>, &'r Value>,
    /// Whether there is more than one namespace, so that it has to be told.
    namespaces: bool,
}

/// Something with the reasons for its state.
struct Explained<'r> {
    title: String,
    state: &'r str,
    reasons: &'r [Reason],
}

fn index(report: &Report) -> HashMap<Name<'_>, &Value> {
    let name =
        |object| (text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    report.objects.iter().map(|object| (name(object), object)).collect()
}

fn namespaces(report: &Report) -> usize {
    let claims = report.claims.iter().map(|claim| claim.namespace.as_str());
    let pods = report.pods.iter().map(|pod| pod.namespace.as_str());
    claims.chain(pods).collect::<BTreeSet<_>>().len()
}

/// `3 of 3 claims bound`.
fn tally(done: usize, all: usize, noun: &str, verb: &str) -> Option<String> {
    let plural = if all == 1 { "" } else { "s" };
    (all > 0).then(|| format!("{done} of {all} {noun}{plural} {verb}"))
}

impl<'r> Page<'r> {
    fn headline(&self, out: &mut String) {
        let report = self.report;
        let time = duration(report.virtual_seconds);
        let (settled, paint) = if report.settled {
            (format!("settled after {time} of virtual time"), Paint::Title)
        } else {
            (format!("still moving after {time} of virtual time"), Paint::Bad)
        };
        let bound = report.claims.iter().filter(|claim| claim.phase == "Bound").count();
        let placed = report.pods.iter().filter(|pod| !pod.node.is_empty()).count();
        let tallies = [
            tally(bound, report.claims.len(), "claim", "bound"),
            tally(placed, report.pods.len(), "pod", "placed"),
        ];
        let tallies: Vec<String> = tallies.into_iter().flatten().collect();
        let tallies =
            if tallies.is_empty() { "no claims and no pods".to_owned() } else { tallies.join(", ") };
        line(out, &format!("{}: {tallies}", self.style.painted(&settled, paint)));
    }

    fn title(&self, out: &mut String, title: &str) {
        out.push('\n');
        line(out, &self.style.painted(title, Paint::Title));
    }

    /// Aligned columns under their names; nothing at all when there are no rows.
    fn table(&self, out: &mut String, title: &str, heads: &[&str], rows: &[Vec<Cell>]) {
        if rows.is_empty() {
            return;
        }
        self.title(out, title);
        self.style.columns(out, heads, rows);
    }

    /// The heads of a table of namespaced things: the namespace is a column only where there are several.
    fn heads(&self, rest: &[&'static str]) -> Vec<&'static str> {
        let namespace = self.namespaces.then_some("NAMESPACE");
        namespace.into_iter().chain(std::iter::once("NAME")).chain(rest.iter().copied()).collect()
    }

    fn row(&self, namespace: &str, name: &str, rest: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
        let namespace = self.namespaces.then(|| cell(namespace));
        namespace.into_iter().chain(std::iter::once(cell(name))).chain(rest).collect()
    }

    fn detail(&self, name: Name<'_>, pointer: &str) -> &'r str {
        self.objects.get(&name).map(|object| text(object, pointer)).unwrap_or_default()
    }

    /// The class of a claim or volume: the old annotation wins over the field, as everywhere in Kubernetes.
    fn class(&self, name: Name<'_>) -> &'r str {
        let annotation = self.detail(name, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
        if annotation.is_empty() { self.detail(name, "/spec/storageClassName") } else { annotation }
    }

    fn claims(&self, out: &mut String) {
        let rows = self.report.claims.iter().map(|claim| {
            let name = ("PersistentVolumeClaim", claim.namespace.as_str(), claim.name.as_str());
            let rest = [
                phase(&claim.phase),
                cell(&claim.volume),
                cell(self.detail(name, "/status/capacity/storage")),
                cell(self.class(name)),
            ];
            self.row(&claim.namespace, &claim.name, rest)
        });
        let rows: Vec<_> = rows.collect();
        self.table(out, "CLAIMS", &self.heads(&["PHASE", "VOLUME", "CAPACITY", "CLASS"]), &rows);
    }

    fn volumes(&self, out: &mut String) {
        let rows = self.report.volumes.iter().map(|volume| {
            let name = ("PersistentVolume", "", volume.name.as_str());
            vec![
                cell(&volume.name),
                phase(&volume.phase),
                cell(&volume.claim),
                cell(self.detail(name, "/spec/capacity/storage")),
                cell(self.class(name)),
                cell(self.detail(name, "/spec/persistentVolumeReclaimPolicy")),
            ]
        });
        let rows: Vec<_> = rows.collect();
        self.table(out, "VOLUMES", &["NAME", "PHASE", "CLAIM", "CAPACITY", "CLASS", "RECLAIM"], &rows);
    }

    fn pods(&self, out: &mut String) {
        let rows = self.report.pods.iter().map(|pod| {
            let name = ("Pod", pod.namespace.as_str(), pod.name.as_str());
            let rest = [cell(&pod.node), phase(self.detail(name, "/status/phase"))];
            self.row(&pod.namespace, &pod.name, rest)
        });
        let rows: Vec<_> = rows.collect();
        self.table(out, "PODS", &self.heads(&["NODE", "PHASE"]), &rows);
    }

    fn titled(&self, namespace: &str, name: &str) -> String {
        if self.namespaces { clean(&format!("{namespace}/{name}")) } else { clean(name) }
    }

    /// What is not bound and not placed, and then what is, though something is odd about it.
    fn why(&self, out: &mut String) {
        let claim = |title: String, state, reasons| Explained { title, state, reasons };
        let (bound, unbound): (Vec<_>, Vec<_>) =
            self.report.claims.iter().partition(|claim| claim.phase == "Bound");
        let (placed, unplaced): (Vec<_>, Vec<_>) =
            self.report.pods.iter().partition(|pod| !pod.node.is_empty());
        let unbound =
            unbound.into_iter().map(|it| claim(self.titled(&it.namespace, &it.name), &it.phase, &it.reasons));
        let unplaced =
            unplaced.into_iter().map(|it| claim(self.titled(&it.namespace, &it.name), "", &it.reasons));
        self.section(out, "NOT BOUND", unbound);
        self.section(out, "NOT PLACED", unplaced);
        let bound = bound.into_iter().map(|it| {
            let title = format!("claim {}", self.titled(&it.namespace, &it.name));
            claim(title, &it.phase, &it.reasons)
        });
        let volumes = self
            .report
            .volumes
            .iter()
            .map(|it| claim(format!("volume {}", clean(&it.name)), &it.phase, &it.reasons));
        let placed = placed
            .into_iter()
            .map(|it| claim(format!("pod {}", self.titled(&it.namespace, &it.name)), "", &it.reasons));
        self.section(
            out,
            "WORTH KNOWING",
            bound.chain(volumes).chain(placed).filter(|it| !it.reasons.is_empty()),
        );
    }

    fn section<'e>(&self, out: &mut String, title: &str, things: impl Iterator<Item = Explained<'e>>) {
        for (position, thing) in things.enumerate() {
            if position == 0 {
                self.title(out, title);
            }
            let mut head = thing.title;
            if !thing.state.is_empty() {
                let state = self.style.painted(&clean(thing.state), Paint::of_phase(thing.state));
                let _ = write!(head, " ({state})");
            }
            line(out, &head);
            if thing.reasons.is_empty() {
                self.style.wrapped(out, 2, "no reason is known", Paint::None);
            }
            for reason in thing.reasons {
                let subject = clean(&reason.subject);
                let colon = if subject.is_empty() { "" } else { ": " };
                self.style.wrapped(
                    out,
                    2,
                    &format!("{subject}{colon}{}", clean(&reason.message)),
                    Paint::None,
                );
                if let Some(fix) = &reason.fix {
                    self.style.wrapped(out, 4, &format!("fix: {}", clean(fix)), Paint::Fix);
                }
            }
        }
    }

    fn warnings(&self, out: &mut String) {
        for (position, warning) in self.report.warnings.iter().enumerate() {
            if position == 0 {
                self.title(out, "WARNINGS");
            }
            self.style.wrapped(out, 0, &clean(warning), Paint::Waiting);
        }
    }
}
