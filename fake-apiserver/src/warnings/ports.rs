//! Decides which ports of a pod's containers get in each other's way. Never refuses. Answers to the ports in
//! `kubernetes/pkg/api/pod/warnings.go`.

use crate::validate::field::Field;

/// What a port opens: the port, its protocol, and where on the host.
#[derive(PartialEq, Eq)]
struct Opens<'a> {
    port: i64,
    protocol: &'a str,
    host_ip: &'a str,
    host_port: i64,
}

impl<'a> Opens<'a> {
    fn read(port: &Field<'a>) -> Self {
        let number = |name: &str| port.at(name).number().unwrap_or(0);
        Self {
            port: number("containerPort"),
            protocol: port.at("protocol").text(),
            host_ip: port.at("hostIP").text(),
            host_port: number("hostPort"),
        }
    }

    /// How this one clashes with an earlier one of the same port and protocol.
    fn clash(&self, earlier: &Self) -> Option<&'static str> {
        if (self.port, self.protocol) != (earlier.port, earlier.protocol) {
            None
        } else if self == earlier {
            Some("duplicate")
        } else if self.host_port == 0 || earlier.host_port == 0 {
            Some("overlapping")
        } else {
            let anywhere = self.host_ip.is_empty() != earlier.host_ip.is_empty();
            (self.host_port == earlier.host_port && anywhere).then_some("dangerously ambiguous")
        }
    }
}

pub(super) fn clashes(containers: &[Field<'_>], said: &mut Vec<String>) {
    let mut ports: Vec<(Field<'_>, Opens<'_>)> = Vec::new();
    for port in containers.iter().flat_map(|container| container.at("ports").items()) {
        let opens = Opens::read(&port);
        if !opens.host_ip.is_empty() && opens.host_port == 0 {
            let (name, port_number) = (port.at("name").text(), opens.port);
            said.push(format!(
                "{}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{port_number} Protocol:{} HostIP:{}}}",
                port.path, opens.protocol, opens.host_ip
            ));
        }
        for (other, earlier) in &ports {
            said.extend(
                opens
                    .clash(earlier)
                    .map(|how| format!("{}: {how} port definition with {}", port.path, other.path)),
            );
        }
        ports.push((port, opens));
    }
    for (index, (port, _)) in ports.iter().enumerate() {
        let name = port.at("name").text();
        let first = ports[..index].iter().find(|(other, _)| other.at("name").text() == name);
        if let Some((other, _)) = first.filter(|_| !name.is_empty()) {
            let (path, other) = (&port.path, &other.path);
            said.push(format!(
                "{path}: duplicate port name \"{name}\" with {other}, services and probes that select ports by name will use {other}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the table below is read more easily")]
    fn check(second: Value, expected: &str) {
        let pod = json!({"containers": [
            {"ports": [{"name": "a", "containerPort": 80, "protocol": "TCP", "hostPort": 8080}]}, {"ports": [second]},
        ]});
        let mut said = Vec::new();
        clashes(&Field::root(&pod).at("containers").items(), &mut said);
        assert!(said.iter().all(|one| one.starts_with("containers[1].ports[0]: ")), "{said:?}");
        let words = said.iter().map(|one| one.split(' ').nth(1).unwrap_or_default());
        assert_eq!(words.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn ports_are_compared_with_earlier_ones() {
        check(json!({"containerPort": 81, "protocol": "TCP"}), "");
        check(json!({"containerPort": 80, "protocol": "UDP"}), "");
        check(json!({"containerPort": 80, "protocol": "TCP", "hostPort": 8080}), "duplicate");
        check(json!({"containerPort": 80, "protocol": "TCP"}), "overlapping");
        check(
            json!({"containerPort": 80, "protocol": "TCP", "hostPort": 8080, "hostIP": "10.0.0.1"}),
            "dangerously",
        );
        check(json!({"name": "a", "containerPort": 82, "protocol": "TCP"}), "duplicate");
        check(json!({"containerPort": 82, "protocol": "TCP", "hostIP": "10.0.0.1"}), "hostIP");
    }
}
