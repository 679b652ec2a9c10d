"""Content Credentials (C2PA): a signed statement inside a file that its audio was generated.

The manifest is signed with a key and a certificate from a file of the user. It has no time stamp,
which would need a server. WAV, FLAC, MP3 and M4B can contain it; Ogg cannot.
Source: C2PA specification 2.2; `trainedAlgorithmicMedia` is one of the IPTC's digital source types.
"""

from __future__ import annotations

import datetime
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tts_cli import extras
from tts_cli.atomic import atomic_path
from tts_cli.audio.tags import SOFTWARE
from tts_cli.errors import RowError, UsageError

MIME_TYPES = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "m4b": "audio/mp4"}
SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
MAX_KEY_BYTES = 1 << 20
# A file may name any address for its manifest, or for the state of its certificate.
OFFLINE = {"verify": {"remote_manifest_fetch": False, "ocsp_fetch": False}}
YEARS = 10  # of a certificate that is made here
EMAIL_PROTECTION = "1.3.6.1.5.5.7.3.4"  # a purpose that C2PA accepts, RFC 5280
_KEYS = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}


@dataclass(frozen=True)
class Credentials:
    is_valid: bool  # the file is unchanged
    is_trusted: bool  # its signer is on a trust list
    signer: str
    source_type: str | None
    problems: tuple[str, ...] = ()


class Signer:
    """Signs files with the key and the certificates of a PEM file; any thread may use it.

    Raises:
        UsageError: the file cannot be read, or has no key or certificate.
        SetupError: a package is missing.
    """

    def __init__(self, path: Path) -> None:
        self._c2pa = extras.load("mark", "c2pa-python", "--mark c2pa")
        from cryptography.hazmat.primitives import serialization

        try:
            pem = path.read_bytes()[:MAX_KEY_BYTES]
            key = serialization.load_pem_private_key(pem[pem.index(b"-----BEGIN PRIVATE") :], None)
            self._certificates = pem[pem.index(b"-----BEGIN CERT") : pem.index(b"-----BEGIN PRIV")]
        except OSError as error:
            raise UsageError(f"--mark-key {path}: {error.strerror}", "check the path") from error
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"--mark-key {path}: must have certificates, and then an unencrypted PRIVATE KEY",
                f"make one with: tts-cli mark key {path.with_suffix('.pem')}",
            ) from error
        curve = getattr(getattr(key, "curve", None), "name", "")
        self._algorithm = _KEYS.get(curve) or ("ps256" if hasattr(key, "key_size") else "ed25519")
        self._key = pem[pem.index(b"-----BEGIN PRIVATE") :]

    def signed(self, data: bytes, format: str, title: str) -> bytes:
        """Return a file with its credentials. Raises RowError."""
        target = io.BytesIO()
        self._sign(io.BytesIO(data), target, format, title)
        return target.getvalue()

    def sign_file(self, path: Path, title: str) -> None:
        """Add credentials to a file. Raises RowError; the file is then unchanged."""
        with atomic_path(path) as part, open(path, "rb") as source, open(part, "x+b") as target:
            self._sign(source, target, path.suffix.removeprefix("."), title)

    def _sign(self, source: BinaryIO, target: BinaryIO, format: str, title: str) -> None:
        c2pa = self._c2pa
        action = {"action": "c2pa.created", "digitalSourceType": SOURCE_TYPE}
        action["softwareAgent"] = {"name": SOFTWARE}  # type: ignore[assignment]
        manifest = {
            "claim_generator_info": [{"name": SOFTWARE}],
            "title": title,
            "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}],
        }
        try:
            info = c2pa.C2paSignerInfo(self._algorithm, self._certificates, self._key, None)
            builder = c2pa.Builder(json.dumps(manifest))
            builder.sign(c2pa.Signer.from_info(info), MIME_TYPES[format], source, target)
        except c2pa.C2paError as error:
            raise RowError(f"cannot be signed: {error}", "check the file of --mark-key") from error


def check_markable(format: str) -> None:
    if format not in MIME_TYPES:
        known = ", ".join(name for name in MIME_TYPES if name != "m4b")
        raise UsageError(f"--mark c2pa: {format} cannot contain it", f"use --format {known}")


def read_credentials(path: Path) -> Credentials | None:
    """Return the credentials of a file, or None. Raises SetupError, OSError."""
    c2pa = extras.load("mark", "c2pa-python", "mark verify")
    format = MIME_TYPES.get(path.suffix.lower().removeprefix("."))
    if format is None:
        return None
    with open(path, "rb") as file:
        try:
            context = c2pa.Context(c2pa.Settings.from_dict(OFFLINE))
            found: dict[str, Any] = json.loads(c2pa.Reader(format, file, context=context).json())
        except c2pa.C2paError.ManifestNotFound:
            return None
        except c2pa.C2paError as error:
            return Credentials(False, False, "unknown", None, (str(error)[:200],))
    manifest = found["manifests"][found["active_manifest"]]
    actions = [
        action
        for one in manifest.get("assertions", [])
        if str(one.get("label", "")).startswith("c2pa.actions")
        for action in one["data"].get("actions", [])
    ]
    types = [one["digitalSourceType"] for one in actions if "digitalSourceType" in one]
    state, signature = found.get("validation_state"), manifest.get("signature_info") or {}
    problems = tuple(str(one.get("code")) for one in found.get("validation_status") or [])
    signer = str(signature.get("common_name") or signature.get("issuer") or "unknown")
    is_valid, is_trusted = state in ("Valid", "Trusted"), state == "Trusted"
    return Credentials(is_valid, is_trusted, signer, next(iter(types), None), problems)


def new_key_file() -> bytes:
    """Return a PEM file with a new key and certificates, which are stored nowhere else.

    C2PA refuses a certificate that signs itself, so a new root signs it.
    """
    extras.load("mark", "c2pa-python", "mark key")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, name = (
        x509.Name.from_rfc4514_string(f"CN=unknown {part} of tts-cli,O=unknown")
        for part in ("root", "signer")
    )

    def certificate(subject: Any, public_key: Any, is_root: bool) -> Any:
        uses = [not is_root, *[False] * 4, is_root, is_root, False, False]
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(root_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.BasicConstraints(is_root, 0 if is_root else None), True)
            .add_extension(x509.KeyUsage(*uses), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
        )
        if not is_root:
            purpose = x509.ExtendedKeyUsage([x509.ObjectIdentifier(EMAIL_PROTECTION)])
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
            built = built.add_extension(purpose, False).add_extension(issuer, False)
        return built.sign(root_key, hashes.SHA256())

    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    signer = certificate(name, key.public_key(), False)
    root = certificate(root_name, root_key.public_key(), True)
    private = key.private_bytes(pem, form, serialization.NoEncryption())
    return signer.public_bytes(pem) + root.public_bytes(pem) + private  # type: ignore[no-any-return]
