//! Decides whether security contexts make sense. Fields for Windows are not looked into. Answers to
//! `validatePodSpecSecurityContext` and `ValidateSecurityContext`.

use crate::status::Cause;
use crate::validate::field::{Causes, Field};

const LARGEST_ID: i64 = 2_147_483_647;

fn ids(context: &Field<'_>, fields: &[&str], causes: &mut Causes) {
    for field in fields {
        id(&context.at(field), causes);
    }
}

fn id(field: &Field<'_>, causes: &mut Causes) {
    if field.number().is_some_and(|id| !(0..=LARGEST_ID).contains(&id)) {
        causes.push(field.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

fn profile(field: &Field<'_>, kinds: &[&str], causes: &mut Causes) {
    if !field.is_set() {
        return;
    }
    let (kind, local) = (field.at("type"), field.at("localhostProfile"));
    if kind.text() == "Localhost" {
        if !local.is_set() {
            causes.push(local.required("must be set when type is Localhost"));
        } else if local.text().starts_with('/') {
            causes.push(local.invalid("must be a relative path"));
        }
    } else {
        if kind.is_empty() {
            causes.push(kind.required("type is required"));
        } else {
            kind.must_be_one_of(kinds, causes);
        }
        if local.is_set() {
            causes.push(local.invalid("can only be set when type is Localhost"));
        }
    }
}

fn profiles(context: &Field<'_>, causes: &mut Causes) {
    let kinds = &["Localhost", "RuntimeDefault", "Unconfined"];
    profile(&context.at("seccompProfile"), kinds, causes);
    profile(&context.at("appArmorProfile"), kinds, causes);
}

pub(super) fn of_container(context: &Field<'_>, causes: &mut Causes) {
    ids(context, &["runAsUser", "runAsGroup"], causes);
    let mount = context.at("procMount");
    if mount.is_set() {
        mount.must_be_one_of(&["Default", "Unmasked"], causes);
        if mount.text() == "Unmasked" {
            causes.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
        }
    }
    profiles(context, causes);
    let escalates = context.at("allowPrivilegeEscalation");
    if escalates.is_set() && !escalates.is_true() {
        if context.at("privileged").is_true() {
            causes.push(
                context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
            );
        }
        if context.at("capabilities.add").items().iter().any(|one| one.text() == "CAP_SYS_ADMIN") {
            causes.push(context.invalid(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
}

pub(super) fn of_pod(spec: &Field<'_>, causes: &mut Causes) {
    let context = spec.at("securityContext");
    ids(&context, &["fsGroup", "runAsUser", "runAsGroup"], causes);
    for group in context.at("supplementalGroups").items() {
        id(&group, causes);
    }
    if spec.at("shareProcessNamespace").is_true() && spec.at("hostPID").is_true() {
        let field = context.at("shareProcessNamespace");
        causes.push(Cause::invalid(
            field.path,
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    let policies: &[(&str, &[&str])] = &[
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ];
    for (field, supported) in policies {
        if context.at(field).is_set() {
            context.at(field).must_be_one_of(supported, causes);
        }
    }
    let mut seen = Vec::new();
    for sysctl in context.at("sysctls").items() {
        let name = sysctl.at("name");
        let fits = |part: &str| {
            let edge = |byte: Option<u8>| {
                byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            };
            edge(part.bytes().next())
                && edge(part.bytes().last())
                && part.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
                })
        };
        if name.is_empty() {
            causes.push(name.required(""));
        } else if name.text().len() > 253 || !name.text().split(['.', '/']).all(fits) {
            causes.push(name.invalid("must have at most 253 characters and match the form of a sysctl"));
        } else if seen.contains(&name.text()) {
            causes.push(name.duplicate());
        }
        seen.push(name.text());
    }
    profiles(&context, causes);
}
