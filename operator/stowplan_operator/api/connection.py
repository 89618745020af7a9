"""Where the API server is and how to be let in: from a kubeconfig, or from inside a pod.

The official client's loader reads both (contexts, merged files, client certificates, tokens, exec plugins). This module
adds what it leaves out: token files and certificates are read again, since they rotate; a plugin that fails is an
error; no text ever shows a credential. Servers are reached over TLS and verified, always.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
NAMESPACE_FILE: Final = TOKEN_FILE.with_name("namespace")
DEFAULT_NAMESPACE: Final = "default"

RENEW_SECONDS: Final = 60.0
"""How long a token from a file or a plugin is used before it is asked for again; client-go's period for files.

A plugin itself runs again only within five minutes of its credential's end.
"""


class ConnectionSettingsError(Exception):
    """The kubeconfig, or what a pod is given in its place, cannot be used; the text says which file and why."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What lets us in. `header` is the value of Authorization, "" if a client certificate does it."""

    header: str = field(default="", repr=False)
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    rotates: bool = False

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let new connections present the client certificate. Raises ConnectionSettingsError."""
        if self.certificate is None:
            return
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConnectionSettingsError(f"the client certificate or its key cannot be used: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One API server. `server`: https://host:port, with a path where the API is behind a proxy.

    `renew(forced)` loads the credential again; it reads files and may run a plugin, so not in an event loop. It raises
    ConnectionSettingsError. `forced`: the server refused the one before.
    """

    server: str
    namespace: str = DEFAULT_NAMESPACE
    credential: Credential
    renew: Callable[[bool], Credential] = field(repr=False)
    ssl_context: ssl.SSLContext = field(repr=False)
    tls_server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)


def load_connection(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """The connection of a context of a kubeconfig, or of the pod that this runs in.

    Without `kubeconfig` the files of KUBECONFIG are taken, else ~/.kube/config, else the pod's service account.
    `context` None: the current context. Raises ConnectionSettingsError.
    """
    paths = _paths(kubeconfig)
    if paths:
        return _Kubeconfig(paths, context).connection()
    if context is not None:
        raise ConnectionSettingsError(f"context {context!r}: there is no kubeconfig that could hold it")
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return _InCluster().connection()
    raise ConnectionSettingsError(
        "no cluster: there is no ~/.kube/config, KUBECONFIG is not set, and this is not a pod; name a kubeconfig"
    )


def _paths(kubeconfig: Path | None) -> str:
    """The files to merge, as KUBECONFIG has them; "" if there are none. Raises ConnectionSettingsError."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise ConnectionSettingsError(
                f"kubeconfig {kubeconfig}: {'not a' if kubeconfig.exists() else 'no such'} file"
            )
        return str(kubeconfig)
    named = os.environ.get("KUBECONFIG", "")
    if named:
        if not any(_expanded(path).is_file() for path in named.split(os.pathsep) if path):
            raise ConnectionSettingsError(f"KUBECONFIG={named}: no such file")
        return named
    usual = _expanded("~/.kube/config")
    return str(usual) if usual.is_file() else ""


def _expanded(path: str) -> Path:
    """With ~ replaced; as it stands for a user without a home, as a container's is that has a number and no name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


class _Source(ABC):
    """Loads by the official client's loader; a new configuration each time that something may have changed."""

    what: str
    rotates: bool

    def __init__(self) -> None:
        self._configuration = self._load()

    @abstractmethod
    def _fill(self, configuration: Any) -> None:
        """Call the loader; whatever it raises is dealt with by the caller."""

    @abstractmethod
    def _namespace(self) -> str:
        """Where the caller lives; the default one if nothing says so."""

    def _load(self) -> Any:
        client: Any = importlib.import_module("kubernetes.client")
        configuration = client.Configuration()
        with _told(self.what):
            self._fill(configuration)
        return configuration

    def renew(self, forced: bool) -> Credential:
        """The credential of now; everything is read again if `forced`."""
        if forced or self._is_stale():
            self._configuration = self._load()
        return self._credential()

    def _is_stale(self) -> bool:
        """Whether the loader's own refreshing is not enough."""
        return False

    def _credential(self) -> Credential:
        configuration = self._configuration
        with _told(self.what):
            # This runs the loader's hook, which reads a pod's token again and runs a plugin whose token ends soon.
            header = (configuration.get_api_key_with_prefix("BearerToken") or "").strip()
        if header[:7] == "bearer ":
            header = f"Bearer {header[7:]}"
        return Credential(header, configuration.cert_file, configuration.key_file, self.rotates)

    def connection(self) -> Connection:
        """Everything a client needs. Raises ConnectionSettingsError."""
        configuration = self._configuration
        server: str = configuration.host.rstrip("/")
        if not server.startswith("https://"):
            raise ConnectionSettingsError(f"{self.what}: server {server!r} must begin with https://")
        if not configuration.verify_ssl:
            raise ConnectionSettingsError(
                f"{self.what}: insecure-skip-tls-verify is not supported; name the cluster's certificate-authority"
            )
        credential = self._credential()
        context = _ssl_context(self.what, configuration.ssl_ca_cert)
        with _told(self.what):
            credential.load_into(context)
        return Connection(
            server=server,
            namespace=self._namespace(),
            credential=credential,
            renew=self.renew,
            ssl_context=context,
            tls_server_name=configuration.tls_server_name,
            proxy=configuration.proxy,
        )


class _InCluster(_Source):
    """The service account of the pod; its projected token is replaced before it ends."""

    what = "in-cluster configuration"
    rotates = True

    def _fill(self, configuration: Any) -> None:
        importlib.import_module("kubernetes.config").load_incluster_config(client_configuration=configuration)

    def _namespace(self) -> str:
        try:
            return NAMESPACE_FILE.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
        except OSError:
            return DEFAULT_NAMESPACE


class _Kubeconfig(_Source):
    """One context of one or more kubeconfig files."""

    def __init__(self, paths: str, context: str | None) -> None:
        self._paths = paths
        self._context = context
        self.what = f"kubeconfig {paths}"
        with _told(self.what):
            self._active, user = self._read()
        self._files = {"tokenFile", "client-certificate", "client-key"} & user.keys()
        self._plugin = "exec" in user
        self._has_token = bool({"token", "tokenFile"} & user.keys())
        self.rotates = bool(self._files) or self._plugin or "auth-provider" in user
        super().__init__()
        if self._plugin and not self._has_token and not self._is_let_in():
            raise ConnectionSettingsError(f"{self.what}: the exec plugin gave no credential")

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The context and the user that it names."""
        module: Any = importlib.import_module("kubernetes.config.kube_config")
        config = module.KubeConfigMerger(self._paths).config
        if config is None or not isinstance(config.value, dict):
            raise ConnectionSettingsError("this is no kubeconfig")
        name = self._context if self._context is not None else config["current-context"]
        names = [entry.value["name"] for entry in config.value.get("contexts") or ()]
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise ConnectionSettingsError(f"there is no context {name!r}; known are: {known}")
        active = config["contexts"].get_with_name(name)["context"].value
        cluster = config["clusters"].get_with_name(active["cluster"])["cluster"]
        if not cluster.safe_get("server"):
            raise ConnectionSettingsError(f"cluster {active['cluster']!r} has no server")
        user = active.get("user")
        entry = config["users"].get_with_name(user, safe=True) if user and config.value.get("users") else None
        return active, dict(entry["user"].value) if entry is not None and entry.safe_get("user") else {}

    def _fill(self, configuration: Any) -> None:
        importlib.import_module("kubernetes.config").load_kube_config(
            config_file=self._paths, context=self._context, client_configuration=configuration, persist_config=False
        )

    def _namespace(self) -> str:
        return self._active.get("namespace") or DEFAULT_NAMESPACE

    def _is_stale(self) -> bool:
        # The loader reads files once.
        return bool(self._files)

    def _is_let_in(self) -> bool:
        configuration = self._configuration
        return bool(configuration.api_key.get("BearerToken") or configuration.cert_file)


def _ssl_context(what: str, authority: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise ConnectionSettingsError(f"{what}: the certificate authority cannot be used: {error}") from None
    # Python 3.13 and later also ask for extensions that authorities of older clusters lack; Go's verification does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn whatever the loader raises, or only logs, into one error without secrets."""
    with _logged_errors() as logged:
        try:
            yield
        except ConnectionSettingsError as error:
            raise ConnectionSettingsError(f"{what}: {error}") from None
        except Exception as error:  # noqa: BLE001 - the loader raises what malformed content makes of its code
            raise ConnectionSettingsError(f"{what}: {_text(error)}") from None
    if logged:
        raise ConnectionSettingsError(f"{what}: {'; '.join(map(_without_content, logged))}")


def _text(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:  # YAML: its own text quotes the line, which may be the token's
        return f"line {mark.line + 1}: {getattr(error, 'problem', None) or 'not YAML'}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text: a kubeconfig is YAML or JSON"
    name = type(error).__name__
    if name == "ConfigException" or isinstance(error, OSError):
        return _without_content(str(error))
    return f"not as expected ({name}): clusters, users and contexts must be lists of entries with a name"


def _without_content(text: str) -> str:
    """Some of the loader's texts quote a whole entry of the file, credentials included."""
    return re.sub(r"/?\{.*\}", "", text, flags=re.DOTALL)


class _Collector(logging.Handler):
    """Keeps what the loader says through the root logger, where it reports a plugin's failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "root" and "kubernetes" in record.pathname:
            self.texts.append(record.getMessage())


@contextmanager
def _logged_errors() -> Iterator[list[str]]:
    root, collector = logging.getLogger(), _Collector()
    root.addHandler(collector)
    try:
        yield collector.texts
    finally:
        root.removeHandler(collector)
