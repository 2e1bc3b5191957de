//! TLS of connections with controllers: `ssl:` and `pssl:`.
//!
//! As in Open vSwitch, both sides show a certificate, which the authority of `--ca-cert` must have
//! signed. Names in certificates are not compared: those that `ovs-pki` makes have none of hosts.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

use crate::error::{Error, ErrorKind};

/// The files of a switch's identity, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its private key.
    pub private_key: PathBuf,
    /// Its certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The certificate of the authority that signs those of controllers.
    pub ca_cert: PathBuf,
}

/// The identity of a switch, ready for connections.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl TlsIdentity {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a file is missing or holds something else.
    pub fn load(files: &TlsFiles) -> Result<Self, Error> {
        let TlsFiles { private_key, certificate, ca_cert } = files;
        let key = PrivateKeyDer::from_pem_file(private_key).map_err(|why| match why {
            pem::Error::NoItemsFound => {
                invalid("--private-key", private_key, "no private key found")
            }
            why => invalid("--private-key", private_key, why),
        })?;
        let chain = certificates("--certificate", certificate)?;
        let mut roots = RootCertStore::empty();
        for root in certificates("--ca-cert", ca_cert)? {
            roots.add(root).map_err(|why| invalid("--ca-cert", ca_cert, why))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let mismatch = |why: rustls::Error| match why {
            rustls::Error::InconsistentKeys(_) => {
                let (certificate, key) = (certificate.display(), private_key.display());
                let message = format!("--certificate {certificate} is for another private key");
                let message = format!("{message} than --private-key {key}");
                Error::new(ErrorKind::Configuration, message)
            }
            why => invalid("--certificate", certificate, why),
        };
        let verifier =
            Arc::new(SignedByAuthority { roots: roots.clone(), provider: provider.clone() });
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(mismatch)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(mismatch)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|why| invalid("--ca-cert", ca_cert, why))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(mismatch)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(mismatch)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// A connection over `stream`, which the switch made or accepted.
    ///
    /// # Errors
    /// A failure inside the TLS library.
    pub(crate) fn connect(&self, stream: TcpStream, is_ours: bool) -> io::Result<ControllerStream> {
        let tls: Connection = match is_ours {
            true => {
                let name = ServerName::from(stream.peer_addr()?.ip());
                ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)?.into()
            }
            false => ServerConnection::new(self.server.clone()).map_err(io::Error::other)?.into(),
        };
        Ok(ControllerStream::Tls(Box::new(tls), stream))
    }
}

fn invalid(option: &str, path: &Path, why: impl std::fmt::Display) -> Error {
    let path = path.display();
    Error::new(ErrorKind::Configuration, format!("{option} {path}: {why}; expected a PEM file"))
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|why| invalid(option, path, why))?;
    match certificates.is_empty() {
        true => Err(invalid(option, path, "no certificate found")),
        false => Ok(certificates),
    }
}

/// Accepts servers whose certificate the authority signed, whatever name it has.
#[derive(Debug)]
struct SignedByAuthority {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SignedByAuthority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(certificate)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The bytes of a connection with a controller, that never block.
#[derive(Debug)]
pub(crate) enum ControllerStream {
    /// Without encryption.
    Plain(TcpStream),
    /// With it.
    Tls(Box<Connection>, TcpStream),
}

impl ControllerStream {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(stream) | Self::Tls(_, stream) => stream.as_fd(),
        }
    }

    /// Whether both sides have shown their certificates.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls, _) => !tls.is_handshaking(),
        }
    }

    /// Whether encrypted bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls, _) => tls.wants_write(),
        }
    }

    /// Sends encrypted bytes that wait.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Self::Tls(tls, stream) = self else { return Ok(()) };
        while tls.wants_write() {
            if tls.write_tls(stream)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// As [`Read::read`]; also goes on with the handshake.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (tls, stream) = match self {
            Self::Plain(stream) => return stream.read(bytes),
            Self::Tls(tls, stream) => (tls, stream),
        };
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that ends the connection without saying so in TLS.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if tls.read_tls(stream)? == 0 {
                return Ok(0);
            }
            if let Err(why) = tls.process_new_packets() {
                // The alert that tells the peer; whether it arrives changes nothing here.
                _ = tls.write_tls(stream);
                return Err(io::Error::other(why));
            }
        }
    }

    /// As [`Write::write`]; nothing is taken before the handshake is over.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Plain(stream) = self {
            return stream.write(bytes);
        }
        self.flush()?;
        let Self::Tls(tls, _) = self else { return Ok(0) };
        if tls.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match tls.writer().write(bytes)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            len => Ok(len),
        }
    }
}
