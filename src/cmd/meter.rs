//! A line on the terminal that says that a long simulation still moves.
//!
//! Shown only where standard error is a terminal that can go back to the start of a line, and only after the first
//! second; taken away before anything else is printed. It holds no colours and no other codes than a carriage return.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::simulate::Progress;

/// How long nothing is shown: most simulations are over before.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(200);

/// The line; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct Meter(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Meter {
    /// Shows how far the simulation is, if anybody can see it.
    pub(super) fn start(progress: &Arc<Progress>) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        if is_dumb || !std::io::stderr().is_terminal() {
            return Meter(None);
        }
        let progress = progress.clone();
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || show(&progress, &stopped, &mut std::io::stderr()));
        Meter(Some((stop, thread)))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A meter that panicked is no reason to lose the outcome.
            let _ = thread.join();
        }
    }
}

fn show(progress: &Progress, stopped: &mpsc::Receiver<()>, out: &mut impl Write) {
    let (mut wait, mut width) = (PATIENCE, 0);
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let line = line(progress);
        // The blanks cover what is left of a longer line. A terminal that is gone is no reason to stop.
        let _ = write!(out, "\r{line:width$}").and_then(|()| out.flush());
        (wait, width) = (PERIOD, line.len());
    }
    if width > 0 {
        let _ = write!(out, "\r{:width$}\r", "").and_then(|()| out.flush());
    }
}

fn line(progress: &Progress) -> String {
    let (loaded, writes) = (progress.loaded(), progress.writes());
    if loaded == 0 {
        return "reading manifests".to_owned();
    }
    let seconds = progress.virtual_time().as_secs_f64();
    format!("{loaded} objects loaded, {seconds:.1} s of virtual time, {writes} writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal on which the simulation ends as soon as the line is there: nothing depends on how fast the
    /// machine is.
    struct Terminal {
        text: Vec<u8>,
        simulation: Option<mpsc::Sender<()>>,
    }

    impl Write for Terminal {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.text.write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.simulation = None;
            Ok(())
        }
    }

    #[test]
    fn the_line_is_shown_after_a_while_and_taken_away() {
        let (simulation, stopped) = mpsc::channel();
        let mut out = Terminal { text: Vec::new(), simulation: Some(simulation) };
        show(&Progress::default(), &stopped, &mut out);
        let shown = String::from_utf8(out.text).unwrap();
        assert_eq!(shown, "\rreading manifests\r                 \r");
    }

    #[test]
    fn a_short_run_shows_nothing() {
        let (stop, stopped) = mpsc::channel();
        drop(stop);
        let mut out = Vec::new();
        show(&Progress::default(), &stopped, &mut out);
        assert!(out.is_empty());
    }
}
