//! Decides what rules may do with networks. Answers to `k8s.io/apiserver/pkg/cel/library/cidr.go`.

use std::net::IpAddr;

use cel::common::types::{CelBool, CelInt, CelString, Type};
use cel::{DeclarationError, Env};

use super::addresses::{self, Address};
use super::{Kind, Opaque, Result, failed, text};

static CIDR: Type = Type::new_unspecified_type("net.CIDR");

/// An address and how many of its bits are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    address: IpAddr,
    bits: u8,
}

type Network = Opaque<Prefix>;

impl Kind for Prefix {
    fn kind() -> &'static Type {
        &CIDR
    }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(CIDR.to_owned())?;
    cel::add_overload!(env, fn cidr: (CelString) -> Result<Network>)?;
    cel::add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    cel::add_overload!(env, fn shown: (Network) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn contains_ip: (Network, Address) -> CelBool, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_ip_text: (Network, CelString) -> Result<CelBool>, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_cidr: (Network, Network) -> CelBool, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn contains_cidr_text: (Network, CelString) -> Result<CelBool>, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn address: (Network) -> Address, name = "ip")?;
    cel::add_member_overload!(env, fn prefix_length: (Network) -> CelInt, name = "prefixLength")?;
    cel::add_member_overload!(env, fn masked: (Network) -> Network)
}

impl Prefix {
    fn parse(raw: &str) -> std::result::Result<Self, String> {
        // The real server says so twice.
        let again = "network address parse error during conversion from string";
        let wrong = |why: &str| format!("{again}: {again}: netip.ParsePrefix({raw:?}): {why}");
        let (address, bits) = raw.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
        let address = addresses::parse(address).map_err(|_| wrong(&addresses::unable(address)))?;
        let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let plain = plain && (bits == "0" || !bits.starts_with('0'));
        let length = bits
            .parse::<u8>()
            .ok()
            .filter(|_| plain)
            .ok_or_else(|| wrong(&format!("bad bits after slash: {bits:?}")))?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        if length > widest {
            return Err(wrong("prefix length out of range"));
        }
        Ok(Self { address, bits: length })
    }

    /// The network's bits of an address, the rest nought.
    fn masked(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(inner) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((inner.to_bits() & mask).into())
            }
            IpAddr::V6(inner) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((inner.to_bits() & mask).into())
            }
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == self.masked(self.address)
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn cidr(raw: &CelString<'_>) -> Result<Network> {
    Prefix::parse(raw.inner()).map(Opaque).map_err(failed)
}

fn is_cidr(raw: &CelString<'_>) -> CelBool {
    Prefix::parse(raw.inner()).is_ok().into()
}

fn shown(network: &Network) -> CelString<'static> {
    text(network.0.to_string())
}

fn contains_ip(network: &Network, address: &Address) -> CelBool {
    network.0.contains(address.0).into()
}

fn contains_ip_text(network: &Network, raw: &CelString<'_>) -> Result<CelBool> {
    Ok(contains_ip(network, &addresses::ip(raw)?))
}

fn contains_cidr(network: &Network, other: &Network) -> CelBool {
    (network.0.bits <= other.0.bits && network.0.contains(other.0.address)).into()
}

fn contains_cidr_text(network: &Network, raw: &CelString<'_>) -> Result<CelBool> {
    Ok(contains_cidr(network, &cidr(raw)?))
}

fn address(network: &Network) -> Address {
    Opaque(network.0.address)
}

fn prefix_length(network: &Network) -> CelInt {
    i64::from(network.0.bits).into()
}

fn masked(network: &Network) -> Network {
    Opaque(Prefix { address: network.0.masked(network.0.address), bits: network.0.bits })
}
