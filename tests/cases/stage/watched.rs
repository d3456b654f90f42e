//! Noticing what goes on meanwhile, and watches that break off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fake_apiserver::Call;
use serde_json::json;

use super::{HISTORY, Stage, claim, volume};

impl Stage {
    /// From now on every phase that a volume goes through is noted.
    pub fn phases_of(&self, volume: &'static str) -> Arc<Mutex<Vec<String>>> {
        let phases = Arc::new(Mutex::new(Vec::new()));
        let (server, noted) = (self.server.clone(), phases.clone());
        // Whoever changes a phase asks the server to: each request is a moment to look at what the one before did.
        self.server.set_faults(Some(Arc::new(move |_: &Call| {
            let volume = server.get("PersistentVolume", "", volume)?;
            let phase = volume["status"]["phase"].as_str().unwrap_or_default().to_owned();
            let mut noted = noted.lock().expect("nobody panics while noting");
            if noted.last() != Some(&phase) {
                noted.push(phase);
            }
            None
        })));
        phases
    }

    /// Ends every watch when the server has forgotten where they were, so that all claims and volumes are listed anew;
    /// then waits until all is quiet, and says what the controller asked besides.
    pub async fn relist(&self) -> Vec<Call> {
        let bystanders = [
            claim("bystander", &json!({"storageClassName": "nobody-has-this"})),
            volume("bystander", &json!({"spec": {"storageClassName": "somebody-has-this"}})),
        ];
        for bystander in &bystanders {
            self.create(bystander);
        }
        self.settle().await;
        self.server.cut_watches();
        for seen in 0..=HISTORY {
            for bystander in &bystanders {
                let kind = bystander["kind"].as_str().expect("a kind");
                let label = json!({"metadata": {"labels": {"seen": seen.to_string()}}});
                self.patch(kind, "bystander", &label);
            }
        }
        let lists = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = lists.clone();
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            if call.verb == "list" {
                noted.lock().expect("nobody panics while noting").insert(call.resource.clone());
            }
            None
        })));
        self.server.record_calls(true);
        self.settle().await;
        let lists = lists.lock().expect("nobody notes any more").clone();
        assert!(["persistentvolumeclaims", "persistentvolumes"].iter().all(|kind| lists.contains(*kind)));
        self.calls()
    }
}
