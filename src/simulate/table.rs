//! The report as a person likes to read it: one line that says it all, tables, and then what is not right and why.
//!
//! Decides layout, wording and colour, and what is left out because it is empty or the same everywhere. Never decides
//! what happened: whatever it prints is in the report.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use serde_json::Value;

use super::report::{Reason, Report};

/// How the table is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour it, for terminals only.
    pub color: bool,
    /// At which column sentences are wrapped; not at all without it. Tables are never cut.
    pub width: Option<usize>,
}

/// Sentences are not squeezed narrower than this, however narrow the terminal is.
const NARROWEST: usize = 20;

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

/// What a word is painted like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paint {
    None,
    Title,
    Good,
    Waiting,
    Bad,
    Fix,
}

impl Paint {
    fn of_phase(phase: &str) -> Self {
        match phase {
            "Bound" | "Available" | "Running" | "Succeeded" => Paint::Good,
            "Lost" | "Failed" => Paint::Bad,
            "Pending" | "Released" => Paint::Waiting,
            _ => Paint::None,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Paint::None => "",
            Paint::Title => "\x1b[1m",
            Paint::Good => "\x1b[32m",
            Paint::Waiting => "\x1b[33m",
            Paint::Bad => "\x1b[31m",
            Paint::Fix => "\x1b[36m",
        }
    }
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

/// One cell of a table.
struct Cell {
    text: String,
    paint: Paint,
}

/// Something with the reasons for its state.
struct Explained<'r> {
    title: String,
    state: &'r str,
    reasons: &'r [Reason],
}

fn text<'r>(object: &'r Value, pointer: &str) -> &'r str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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

/// Names and messages come from the input: what would steer the terminal is shown instead of sent.
fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

fn cell(text: &str) -> Cell {
    Cell { text: if text.is_empty() { "-".to_owned() } else { clean(text) }, paint: Paint::None }
}

fn phase(text: &str) -> Cell {
    Cell { paint: Paint::of_phase(text), ..cell(text) }
}

/// `3 of 3 claims bound`.
fn tally(done: usize, all: usize, noun: &str, verb: &str) -> Option<String> {
    let plural = if all == 1 { "" } else { "s" };
    (all > 0).then(|| format!("{done} of {all} {noun}{plural} {verb}"))
}

/// `1.5 s`, `5 min 19 s`, `1 h 0 min 0 s`.
fn duration(seconds: f64) -> String {
    // To the millisecond, and without the noise of floating point.
    let exact = format!("{:.3}", seconds.max(0.0));
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    match whole.parse::<u64>() {
        Ok(whole) if whole >= 3600 => {
            format!("{} h {} min {} s", whole / 3600, whole / 60 % 60, whole % 60)
        }
        Ok(whole) if whole >= 60 => format!("{} min {}{point}{fraction} s", whole / 60, whole % 60),
        _ => format!("{whole}{point}{fraction} s"),
    }
}

impl<'r> Page<'r> {
    fn painted(&self, text: &str, paint: Paint) -> String {
        if self.style.color && paint != Paint::None {
            format!("{}{text}\x1b[0m", paint.code())
        } else {
            text.to_owned()
        }
    }

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
        line(out, &format!("{}: {tallies}", self.painted(&settled, paint)));
    }

    fn title(&self, out: &mut String, title: &str) {
        out.push('\n');
        line(out, &self.painted(title, Paint::Title));
    }

    /// Aligned columns under their names; nothing at all when there are no rows.
    fn table(&self, out: &mut String, title: &str, heads: &[&str], rows: &[Vec<Cell>]) {
        if rows.is_empty() {
            return;
        }
        self.title(out, title);
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(column, head)| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.chars().count()).fold(head.len(), usize::max)
            })
            .collect();
        let heads: Vec<Cell> = heads.iter().map(|head| cell(head)).collect();
        for row in std::iter::once(&heads).chain(rows) {
            let mut text = String::new();
            for (position, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if position + 1 == row.len() { 0 } else { width - cell.text.chars().count() + 2 };
                text.push_str(&self.painted(&cell.text, cell.paint));
                text.extend(std::iter::repeat_n(' ', gap));
            }
            line(out, &text);
        }
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
                let state = self.painted(&clean(thing.state), Paint::of_phase(thing.state));
                let _ = write!(head, " ({state})");
            }
            line(out, &head);
            if thing.reasons.is_empty() {
                self.wrapped(out, 2, "no reason is known", Paint::None);
            }
            for reason in thing.reasons {
                let subject = clean(&reason.subject);
                let colon = if subject.is_empty() { "" } else { ": " };
                self.wrapped(out, 2, &format!("{subject}{colon}{}", clean(&reason.message)), Paint::None);
                if let Some(fix) = &reason.fix {
                    self.wrapped(out, 4, &format!("fix: {}", clean(fix)), Paint::Fix);
                }
            }
        }
    }

    fn warnings(&self, out: &mut String) {
        for (position, warning) in self.report.warnings.iter().enumerate() {
            if position == 0 {
                self.title(out, "WARNINGS");
            }
            self.wrapped(out, 0, &clean(warning), Paint::Waiting);
        }
    }

    /// A sentence at an indent, wrapped between words; lines after the first stand two further in.
    fn wrapped(&self, out: &mut String, indent: usize, sentence: &str, paint: Paint) {
        let width = self.style.width.map_or(usize::MAX, |width| width.max(NARROWEST + indent + 2));
        let (mut text, mut used, mut margin) = (String::new(), 0, indent);
        for word in sentence.split(' ') {
            let long = word.chars().count();
            if used > 0 && margin + used + 1 + long > width {
                line(out, &format!("{:margin$}{}", "", self.painted(&text, paint)));
                text.clear();
                (used, margin) = (0, indent + 2);
            }
            if used > 0 {
                text.push(' ');
                used += 1;
            }
            text.push_str(word);
            used += long;
        }
        line(out, &format!("{:margin$}{}", "", self.painted(&text, paint)));
    }
}

/// A line without blanks at its end.
fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}
