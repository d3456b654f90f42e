//! What a case asks the server afterwards: what it holds, and what it was asked.

use fake_apiserver::Call;
use serde_json::Value;

use super::Stage;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Stage {
    /// An object, or null.
    pub fn get(&self, kind: &str, name: &str) -> Value {
        let namespaced = ["PersistentVolumeClaim", "Pod", "CSIStorageCapacity"].contains(&kind);
        let namespace = if namespaced { "default" } else { "" };
        self.server.get(kind, namespace, name).map_or(Value::Null, |object| Value::clone(&object))
    }

    /// All objects of a kind.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let objects = self.server.objects().into_iter().filter(|object| object["kind"] == kind);
        objects.map(|object| Value::clone(&object)).collect()
    }

    pub fn claim(&self, name: &str) -> Value {
        self.get("PersistentVolumeClaim", name)
    }

    pub fn volume(&self, name: &str) -> Value {
        self.get("PersistentVolume", name)
    }

    /// The phase of a volume, and the claim that it is for.
    pub fn volume_state(&self, name: &str) -> (String, String) {
        let volume = self.volume(name);
        (text(&volume["status"]["phase"]), text(&volume["spec"]["claimRef"]["name"]))
    }

    /// The phase of a claim, and the volume that it names.
    pub fn claim_state(&self, name: &str) -> (String, String) {
        let claim = self.claim(name);
        (text(&claim["status"]["phase"]), text(&claim["spec"]["volumeName"]))
    }

    /// The node that a pod is on; empty while it is on none.
    pub fn node_of(&self, pod: &str) -> String {
        text(&self.get("Pod", pod)["spec"]["nodeName"])
    }

    /// The node that is selected for a claim; empty while none is.
    pub fn selected_node(&self, claim: &str) -> String {
        text(&self.claim(claim)["metadata"]["annotations"]["volume.kubernetes.io/selected-node"])
    }

    pub fn finalizers(&self, kind: &str, name: &str) -> Vec<String> {
        let object = self.get(kind, name);
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.iter().map(|f| f.as_str().expect("a text").to_owned()).collect()
    }

    /// Reason and message of each event about an object of this name, in the order of their texts.
    pub fn events(&self, name: &str) -> Vec<(String, String)> {
        let events = self.server.objects().into_iter().filter(|object| object["kind"] == "Event");
        let mut found: Vec<_> = events
            .filter(|event| {
                let about = if event["involvedObject"].is_null() { "regarding" } else { "involvedObject" };
                event[about]["name"] == name
            })
            .map(|event| {
                let message = if event["message"].is_null() { "note" } else { "message" };
                (text(&event["reason"]), text(&event[message]))
            })
            .collect();
        found.sort();
        found
    }

    /// Why the pod could not be scheduled, as its events say, each text once.
    pub fn refusals(&self, pod: &str) -> Vec<String> {
        let events = self.events(pod).into_iter();
        events.filter(|(reason, _)| reason == "FailedScheduling").map(|(_, message)| message).collect()
    }

    /// How often the pod was told that it could not be scheduled.
    pub fn times_refused(&self, pod: &str) -> u64 {
        let refusals = self.all("Event").into_iter().filter(|event| event["reason"] == "FailedScheduling");
        let about = refusals
            .filter(|event| event["regarding"]["name"] == pod || event["involvedObject"]["name"] == pod);
        about.map(|event| event["series"]["count"].as_u64().unwrap_or(1)).sum()
    }

    /// The calls about something else than events, since they were last recorded.
    pub fn calls(&self) -> Vec<Call> {
        self.server.calls().into_iter().filter(|call| call.resource != "events").collect()
    }
}
