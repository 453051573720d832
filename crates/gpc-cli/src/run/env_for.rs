//! Variables of `--env-for` that are the same for all processes. Each node adds those that differ.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use gpc_bnr::Spec;

use crate::limits::cannot_start;

/// Adds the variables of `torch.distributed` to programs of which all run on this machine. The port is free now; the
/// processes must start soon, since another program may take it.
///
/// # Errors
/// If the system has no free port.
pub(super) fn add_torch(specs: &mut [Spec]) -> io::Result<()> {
    let address = free_address().map_err(cannot_start("--env-for torch: a listener at a free port"))?;
    specs.iter_mut().for_each(|spec| add(spec, address));
    Ok(())
}

fn free_address() -> io::Result<SocketAddr> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    bound.or_else(|_| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)))?.local_addr()
}

fn add(spec: &mut Spec, address: SocketAddr) {
    let pairs = [("MASTER_ADDR", address.ip().to_string()), ("MASTER_PORT", address.port().to_string())];
    pairs.into_iter().for_each(|(name, value)| add_variable(spec, name, value));
    spec.info.push(("env-for".into(), b"torch".to_vec()));
}

/// Adds a variable, unless the user has chosen a value.
pub(super) fn add_variable(spec: &mut Spec, name: &str, value: String) {
    if spec.env.iter().all(|(known, _)| known != name.as_bytes()) {
        spec.env.push((name.into(), value.into_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_user_stay() {
        let own = (b"MASTER_PORT".to_vec(), b"29500".to_vec());
        let mut specs = [Spec::default(), Spec { env: vec![own.clone()], ..Spec::default() }];
        add_torch(&mut specs).unwrap();
        let value = |spec: &Spec, wanted: &str| {
            let found = spec.env.iter().find(|(name, _)| name == wanted.as_bytes());
            String::from_utf8(found.unwrap().1.clone()).unwrap()
        };
        assert_eq!(value(&specs[0], "MASTER_ADDR"), "127.0.0.1");
        assert!(value(&specs[0], "MASTER_PORT").parse::<u16>().is_ok_and(|port| port > 0));
        assert_eq!((specs[1].env.len(), &specs[1].env[0]), (2, &own));
        assert!(specs.iter().all(|spec| spec.info == [("env-for".to_owned(), b"torch".to_vec())]));
    }
}
