//! Decides what rules may do with addresses. Answers to `k8s.io/apiserver/pkg/cel/library/ip.go`.

use std::net::IpAddr;

use cel::common::types::{CelBool, CelInt, CelString, Type};
use cel::{DeclarationError, Env};

use super::{Kind, Opaque, Result, failed, text};

static IP: Type = Type::new_unspecified_type("net.IP");

pub(super) type Address = Opaque<IpAddr>;

impl Kind for IpAddr {
    fn kind() -> &'static Type {
        &IP
    }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(IP.to_owned())?;
    cel::add_overload!(env, fn ip: (CelString) -> Result<Address>)?;
    cel::add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    cel::add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    cel::add_overload!(env, fn shown: (Address) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn family: (Address) -> CelInt)?;
    cel::add_member_overload!(env, fn is_unspecified: (Address) -> CelBool, name = "isUnspecified")?;
    cel::add_member_overload!(env, fn is_loopback: (Address) -> CelBool, name = "isLoopback")?;
    cel::add_member_overload!(env, fn is_local_multicast: (Address) -> CelBool, name = "isLinkLocalMulticast")?;
    cel::add_member_overload!(env, fn is_local_unicast: (Address) -> CelBool, name = "isLinkLocalUnicast")?;
    cel::add_member_overload!(env, fn is_global_unicast: (Address) -> CelBool, name = "isGlobalUnicast")
}

/// An address as the real server takes one: no zone, and no IPv4 in IPv6.
pub(super) fn parse(raw: &str) -> std::result::Result<IpAddr, String> {
    if raw.contains('%') {
        return Err(format!("IP address {raw:?} with zone value is not allowed"));
    }
    let address: IpAddr = raw.parse().map_err(|_| {
        format!("IP Address {raw:?} parse error during conversion from string: {}", unable(raw))
    })?;
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {raw:?} is not allowed"))
        }
        _ => Ok(address),
    }
}

/// The words of Go's parser for what is no address.
pub(super) fn unable(raw: &str) -> String {
    format!("ParseAddr({raw:?}): unable to parse IP")
}

pub(super) fn ip(raw: &CelString<'_>) -> Result<Address> {
    parse(raw.inner()).map(Opaque).map_err(failed)
}

fn is_ip(raw: &CelString<'_>) -> CelBool {
    parse(raw.inner()).is_ok().into()
}

fn is_canonical(raw: &CelString<'_>) -> Result<CelBool> {
    Ok((ip(raw)?.0.to_string() == raw.inner()).into())
}

fn shown(address: &Address) -> CelString<'static> {
    text(address.0.to_string())
}

fn family(address: &Address) -> CelInt {
    if address.0.is_ipv4() { 4 } else { 6 }.into()
}

fn is_unspecified(address: &Address) -> CelBool {
    address.0.is_unspecified().into()
}

fn is_loopback(address: &Address) -> CelBool {
    address.0.is_loopback().into()
}

fn is_local_multicast(address: &Address) -> CelBool {
    match address.0 {
        IpAddr::V4(inner) => inner.octets()[..3] == [224, 0, 0],
        IpAddr::V6(inner) => inner.segments()[0] & 0xff0f == 0xff02,
    }
    .into()
}

fn on_link(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(inner) => inner.is_link_local(),
        IpAddr::V6(inner) => inner.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_local_unicast(address: &Address) -> CelBool {
    on_link(&address.0).into()
}

fn is_global_unicast(address: &Address) -> CelBool {
    let broadcast = matches!(address.0, IpAddr::V4(inner) if inner.is_broadcast());
    let special = address.0.is_unspecified() || address.0.is_loopback() || address.0.is_multicast();
    (!broadcast && !special && !on_link(&address.0)).into()
}
