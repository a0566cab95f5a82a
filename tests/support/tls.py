"""A certificate of our own for a test's server."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate for a name or an address, and contexts that use it or trust it."""

    def __init__(self, folder: Path, name: x509.GeneralName) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "referee")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(own, own, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([name]), False)
            .sign(key, hashes.SHA256())
        )
        encoding = serialization.Encoding.PEM
        file = folder / "server.pem"
        file.write_bytes(
            key.private_bytes(
                encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(encoding)
        )
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(file)
        self.client = ssl.create_default_context(cafile=file)
