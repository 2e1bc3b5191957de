//! Options of a tunnel port, in the words of Open vSwitch.

use std::net::IpAddr;
use std::str::FromStr;

use super::TunnelKind;

/// Characters of a name of a port in OpenFlow.
const NAME_LEN_MAX: usize = 15;
/// The TTL of outer headers unless configured otherwise, and for inner frames without one.
pub(super) const TTL: u8 = 64;
/// The bits of a type of service that an option sets: DSCP.
pub(super) const DSCP: u8 = 0xfc;
/// Options with the value of the inner frame.
const INHERIT: &str = "inherit";

/// An option that is set, or taken from the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelValue<T> {
    /// From `tun_id`, `tun_src` or `tun_dst` of the frame; any value of received packets.
    Flow,
    /// This value.
    Fixed(T),
}

impl<T: Copy> TunnelValue<T> {
    /// The value, if it is set.
    pub fn fixed(self) -> Option<T> {
        match self {
            Self::Flow => None,
            Self::Fixed(value) => Some(value),
        }
    }
}

/// A tunnel port: `vxlan:NAME:OPTION=VALUE,...`, `geneve:…`, `gre:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelOptions {
    /// The protocol.
    pub kind: TunnelKind,
    /// The name of the port.
    pub name: String,
    /// `remote_ip`: the other end.
    pub remote: TunnelValue<IpAddr>,
    /// `local_ip`: the address of this end; any if none.
    pub local: Option<TunnelValue<IpAddr>>,
    /// `key` or `in_key`: of received packets. Without, packets with key 0 or no key.
    pub in_key: Option<TunnelValue<u32>>,
    /// `key` or `out_key`: of sent packets.
    pub out_key: Option<TunnelValue<u32>>,
    /// `dst_port`: the UDP port here and at the other end; 0 for GRE.
    pub dst_port: u16,
    /// `tos` of the outer header, without ECN; that of the inner frame if none.
    pub tos: Option<u8>,
    /// `ttl` of the outer header; that of the inner frame if none.
    pub ttl: Option<u8>,
    /// `df_default`: whether the outer packet must not be fragmented.
    pub has_df: bool,
    /// `csum`: whether GRE headers, and UDP headers over IPv4, have a checksum.
    pub has_checksum: bool,
}

impl TunnelOptions {
    /// Whether `text` starts as a tunnel port does.
    pub fn is_tunnel(text: &str) -> bool {
        split_kind(text).is_some()
    }

    /// Whether the outer packets are IPv6.
    pub fn is_ipv6(&self) -> bool {
        let local = self.local.and_then(TunnelValue::fixed);
        self.remote.fixed().or(local).is_some_and(|ip| ip.is_ipv6())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "remote_ip" => self.remote = address(name, value)?,
            "local_ip" => self.local = Some(address(name, value)?),
            "key" => {
                let key = self.key(name, value)?;
                (self.in_key, self.out_key) = (key, key);
            }
            "in_key" => self.in_key = self.key(name, value)?,
            "out_key" => self.out_key = self.key(name, value)?,
            "dst_port" if self.kind != TunnelKind::Gre => {
                let port = value.parse().ok().filter(|port| *port != 0);
                self.dst_port = port.ok_or_else(|| expected(name, value, "1 to 65535"))?;
            }
            "tos" => {
                let what = "'inherit' or a multiple of 4 up to 252";
                self.tos = inherited(name, value, what, |tos| tos & !DSCP == 0)?;
            }
            "ttl" => self.ttl = inherited(name, value, "'inherit' or 1 to 255", |ttl| ttl != 0)?,
            "df_default" => self.has_df = flag(name, value)?,
            "csum" => self.has_checksum = flag(name, value)?,
            _ => {
                let port = if self.kind == TunnelKind::Gre { "" } else { "dst_port, " };
                return Err(format!(
                    "unknown option '{name}' of a {} port; expected one of remote_ip, local_ip, \
                     key, in_key, out_key, {port}tos, ttl, df_default, csum",
                    self.kind.name()
                ));
            }
        }
        Ok(())
    }

    fn key(&self, name: &str, value: &str) -> Result<Option<TunnelValue<u32>>, String> {
        if value == "flow" {
            return Ok(Some(TunnelValue::Flow));
        }
        let max = self.kind.key_max();
        let key = number(value).filter(|key| *key <= max);
        let key = key.ok_or_else(|| expected(name, value, &format!("'flow' or 0 to {max}")))?;
        Ok(Some(TunnelValue::Fixed(key)))
    }

    fn check(&self) -> Result<(), String> {
        let (remote, local) = (self.remote.fixed(), self.local.and_then(TunnelValue::fixed));
        if let (Some(remote), Some(local)) = (remote, local)
            && remote.is_ipv4() != local.is_ipv4()
        {
            return Err(format!("remote_ip={remote} and local_ip={local} are of two families"));
        }
        // The fields tun_src and tun_dst hold IPv4 addresses.
        let has_flow = remote.is_none() || self.local == Some(TunnelValue::Flow);
        if has_flow && self.is_ipv6() {
            return Err("an address 'flow' requires IPv4 at the other end as well".to_owned());
        }
        if remote.is_some_and(|ip| ip.is_multicast() || ip.is_unspecified()) {
            return Err("remote_ip: expected the address of one host, or 'flow'".to_owned());
        }
        Ok(())
    }
}

fn split_kind(text: &str) -> Option<(TunnelKind, &str)> {
    let (kind, rest) = text.split_once(':')?;
    TunnelKind::ALL.into_iter().find(|known| known.name() == kind).map(|kind| (kind, rest))
}

fn address(name: &str, value: &str) -> Result<TunnelValue<IpAddr>, String> {
    match value {
        "flow" => Ok(TunnelValue::Flow),
        _ => value
            .parse()
            .map(TunnelValue::Fixed)
            .map_err(|_| expected(name, value, "an IP address or 'flow'")),
    }
}

/// A decimal or hexadecimal number.
fn number(value: &str) -> Option<u32> {
    match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

/// A value of a header, or none for that of the inner frame.
fn inherited(
    name: &str,
    value: &str,
    what: &str,
    is_valid: fn(u8) -> bool,
) -> Result<Option<u8>, String> {
    if value == INHERIT {
        return Ok(None);
    }
    let number = number(value).and_then(|number| u8::try_from(number).ok());
    number.filter(|number| is_valid(*number)).map(Some).ok_or_else(|| expected(name, value, what))
}

fn flag(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| expected(name, value, "true or false"))
}

fn expected(name: &str, value: &str, what: &str) -> String {
    format!("invalid {name}={value}; expected {what}")
}

impl FromStr for TunnelOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "expected vxlan:NAME:remote_ip=ADDRESS[,OPTION=VALUE]..., geneve:… or gre:…";
        let (kind, rest) = split_kind(text).ok_or(usage)?;
        let (name, list) = rest.split_once(':').ok_or(usage)?;
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(format!("invalid name '{name}'; expected 1 to {NAME_LEN_MAX} characters"));
        }
        let mut options = Self {
            kind,
            name: name.to_owned(),
            remote: TunnelValue::Flow,
            local: None,
            in_key: None,
            out_key: None,
            dst_port: kind.default_port(),
            tos: Some(0),
            ttl: Some(TTL),
            has_df: true,
            // As the RFCs recommend: VXLAN without, Geneve with a UDP checksum.
            has_checksum: kind == TunnelKind::Geneve,
        };
        let mut known = Vec::new();
        for option in list.split(',') {
            let (name, value) = option.split_once('=').ok_or(usage)?;
            if known.contains(&name) {
                return Err(format!("{name} is set twice"));
            }
            options.set(name, value)?;
            known.push(name);
        }
        if !known.contains(&"remote_ip") {
            return Err("remote_ip is missing; expected an IP address or 'flow'".to_owned());
        }
        options.check()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_options() {
        let text = "vxlan:vx0:remote_ip=10.0.0.2,local_ip=10.0.0.1,key=0x10,dst_port=8472,ttl=9";
        let options: TunnelOptions = text.parse().unwrap();
        let fixed = |text: &str| TunnelValue::Fixed(text.parse::<IpAddr>().unwrap());
        assert_eq!(options.name, "vx0");
        assert_eq!((options.remote, options.local), (fixed("10.0.0.2"), Some(fixed("10.0.0.1"))));
        assert_eq!(options.in_key, Some(TunnelValue::Fixed(16)));
        assert_eq!(options.out_key, options.in_key);
        assert_eq!((options.dst_port, options.tos, options.ttl), (8472, Some(0), Some(9)));
        assert!(options.has_df && !options.has_checksum && !options.is_ipv6());
        let options: TunnelOptions =
            "geneve:g:remote_ip=flow,in_key=flow,out_key=7,df_default=false".parse().unwrap();
        assert_eq!((options.remote, options.in_key), (TunnelValue::Flow, Some(TunnelValue::Flow)));
        assert_eq!((options.out_key, options.dst_port), (Some(TunnelValue::Fixed(7)), 6081));
        assert!(!options.has_df && options.has_checksum);
        let options: TunnelOptions =
            "gre:g:remote_ip=flow,tos=inherit,ttl=inherit".parse().unwrap();
        assert_eq!((options.tos, options.ttl), (None, None));
        let options: TunnelOptions = "gre:g:remote_ip=flow,tos=0xb8".parse().unwrap();
        assert_eq!((options.tos, options.ttl), (Some(184), Some(TTL)));
        let options: TunnelOptions = "gre:g:remote_ip=fd00::2,csum=true".parse().unwrap();
        assert!(options.is_ipv6() && options.has_checksum && options.in_key.is_none());
    }

    #[test]
    fn reports_invalid_options() {
        for (text, part) in [
            ("vxlan:vx0", "expected vxlan:NAME:remote_ip=ADDRESS"),
            ("vxlan:vx0:", "expected vxlan:NAME:remote_ip=ADDRESS"),
            ("vxlan::remote_ip=flow", "1 to 15 characters"),
            ("vxlan:v:key=1", "remote_ip is missing"),
            ("vxlan:v:remote_ip=host", "an IP address or 'flow'"),
            ("vxlan:v:remote_ip=flow,key=16777216", "'flow' or 0 to 16777215"),
            ("vxlan:v:remote_ip=flow,remote_ip=flow", "remote_ip is set twice"),
            ("vxlan:v:remote_ip=flow,dst_port=0", "1 to 65535"),
            ("vxlan:v:remote_ip=flow,ttl=0", "'inherit' or 1 to 255"),
            ("vxlan:v:remote_ip=flow,tos=3", "'inherit' or a multiple of 4"),
            ("vxlan:v:remote_ip=flow,tos=0x100", "'inherit' or a multiple of 4"),
            ("vxlan:v:remote_ip=flow,csum=1", "true or false"),
            ("vxlan:v:remote_ip=flow,exts=gbp", "unknown option 'exts' of a vxlan port"),
            ("gre:v:remote_ip=flow,dst_port=1", "out_key, tos, ttl"),
            ("vxlan:v:remote_ip=10.0.0.1,local_ip=fd00::1", "two families"),
            ("vxlan:v:remote_ip=flow,local_ip=fd00::1", "requires IPv4"),
            ("vxlan:v:remote_ip=fd00::1,local_ip=flow", "requires IPv4"),
            ("vxlan:v:remote_ip=239.0.0.1", "the address of one host"),
        ] {
            let error = text.parse::<TunnelOptions>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
