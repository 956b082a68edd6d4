"""Where the controller is, and with which keys: found as the command line finds them.

The first of these names the controller: the arguments of the client, ``CONTROLLER_ADDRESS``, ``LLTS_CONTEXT``, and the
configuration of the home. Inside a task, the agent has given address and keys, and no home is looked for.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llts.errors import ConfigError, KeyRefused, NoController

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A longer path does not fit into the address of a unix socket of ZeroMQ.
SOCKET_PATH_BYTES_MAX = 107

MARK = ".llts-home"


@dataclass(frozen=True)
class Keys:
    """A pair for CURVE: the public key of the controller, and the own secret key, each as 40 characters of Z85."""

    server: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Endpoint:
    """A controller.

    ``addresses`` are tried by turns. ``is_local`` is true for a controller of this machine. ``task`` is the task of that
    controller to which this process belongs, the parent of what it submits.
    """

    addresses: tuple[str, ...]
    keys: Keys | None
    is_local: bool
    task: str | None = None

    def __str__(self) -> str:
        return ", ".join(self.addresses)


def find(
    *,
    home: str | os.PathLike[str] | None = None,
    controller: str | None = None,
    context: str | None = None,
    server_key_file: str | os.PathLike[str] | None = None,
    secret_key_file: str | os.PathLike[str] | None = None,
) -> Endpoint:
    """Return the controller that the arguments, the environment or the configuration name.

    Raises :class:`ConfigError` for what cannot be used, and :class:`NoController` if the home has no service.
    """
    if (server_key_file is None) != (secret_key_file is None):
        raise ConfigError("server_key_file and secret_key_file belong together; name both, or neither")
    given = read_keys(server_key_file, secret_key_file) if server_key_file and secret_key_file else None
    if controller and context:
        raise ConfigError("controller and context each name a controller; name one of them")
    variable = os.environ.get("CONTROLLER_ADDRESS")
    address = controller or (None if context else variable)
    name = context or (None if address else os.environ.get("LLTS_CONTEXT"))
    if name:
        found = in_context(name)
        return named(found["address"], given or read_keys(found.get("server_key_file"), found.get("secret_key_file")))
    is_in_task = not controller and bool(variable) and bool(os.environ.get("__TASK_ID__"))
    folder = None if is_in_task and home is None and not os.environ.get("LLTS_HOME") else find_home(home)
    config = {} if folder is None or is_in_task else read_toml(folder / "config.toml")
    # A variable stands over the file.
    config |= {key[5:]: value for key, value in os.environ.items() if key.startswith("LLTS_")}
    base = folder or Path.cwd()
    keys = given or read_keys(
        *(base / config[key] if config.get(key) else None for key in ("CURVE_SERVER_PUBLIC_KEY_FILE", "CURVE_SECRET_KEY_FILE"))
    )
    if not address:
        return configured(base, config, keys)
    return replace(named(address, keys), task=os.environ["__TASK_ID__"] if is_in_task else None)


def named(text: str, keys: Keys | None) -> Endpoint:
    """Return the controller at ``tcp://HOST:PORT``, several of these with commas between them, or ``ipc://PATH``."""
    first, *others = text.split(",")
    addresses = (first, *(f"tcp://{other}" for other in others))
    for address in addresses:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        is_tcp = address.startswith("tcp://") and host not in ("", "*") and port.isdigit() and 0 < int(port) < 65536
        if not is_tcp and not (address.startswith("ipc://") and len(address) > len("ipc://")):
            raise ConfigError(f"{text!r} is not an address of a controller; write tcp://HOST:PORT or ipc://PATH")
    return Endpoint(addresses, keys, all(is_here(address) for address in addresses))


def is_here(address: str) -> bool:
    """Return whether an address is one of this machine."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    return address.startswith("ipc://") or host in ("localhost", "::1") or host.startswith("127.")


def configured(home: Path, config: Mapping[str, Any], keys: Keys | None) -> Endpoint:
    """Return the controller of a home: its unix socket if it listens, otherwise what runs there or is configured."""
    state = home / str(config.get("STATE_DIR", "state"))
    hosts = config.get("CONTROLLER_IP", "127.0.0.1")
    hosts = hosts.split(",") if isinstance(hosts, str) else list(hosts)
    port = config.get("CONTROLLER_REP_PORT", 15555)
    path = config.get("CONTROLLER_IPC_FILE", "auto")
    path = state / "controller.sock" if path == "auto" else home / path if path else None
    if path is not None and len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX and listens(path):
        return Endpoint((f"ipc://{path}",), keys, is_local=True)
    is_joined = keys is not None and not config.get("CURVE_SERVER_SECRET_KEY_FILE")
    unspecified = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    tcp = [f"tcp://{f'[{host}]' if ':' in host else host}:{port}" for host in (unspecified.get(h, h) for h in hosts)]
    local = all(host in ("", *unspecified) or is_here(f"tcp://{host}:{port}") for host in hosts)
    if is_joined or not local:
        return Endpoint(tuple(tcp), keys, is_local=False)
    # The ports of a service may be others than the configured ones.
    service = read_service(state)
    if service is None and (port in ("off", 0) or (keys is None and path is not None)):
        raise NoController(f"no service runs in {state} (STATE_DIR); start one with `llts up`")
    if service is not None:
        own = service.get("socket")
        if own and len(os.fsencode(own)) <= SOCKET_PATH_BYTES_MAX + len("ipc://"):
            return Endpoint((own,), keys, is_local=True)
        return named(service["controller"].replace("//0.0.0.0:", "//127.0.0.1:"), keys)
    return Endpoint(tuple(tcp), keys, is_local=True)


def listens(path: Path) -> bool:
    """Return whether a process listens at a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        # A process that is frozen, and has as many callers as it may, would be waited for.
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def read_service(state: Path) -> dict[str, Any] | None:
    """Return the service of a STATE_DIR that runs, or None."""
    try:
        service: dict[str, Any] = json.loads((state / "service.json").read_text())
        # A killed service leaves its file.
        os.kill(service["pid"], 0)
    except PermissionError:
        return service
    except (OSError, ValueError, KeyError):
        return None
    return service


def find_home(home: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the service: the argument, ``LLTS_HOME``, the nearest home upwards, or that of the user."""
    chosen = home or os.environ.get("LLTS_HOME")
    if chosen:
        folder = Path(chosen).absolute()
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder, so it is no home; name another one")
        return folder
    here = Path.cwd()
    for folder in (here, *here.parents):
        is_named = (folder / MARK).exists() or (folder == here and is_configuration(folder / "config.toml"))
        # In a shared folder such as /tmp, another user could put a mark above the folders of this user.
        if is_named and folder.stat().st_mode & 0o1002 != 0o1002:
            return folder
    if (xdg := Path(os.environ.get("XDG_STATE_HOME", ""))).is_absolute():
        return xdg / "llts"
    return Path("/var/lib/llts") if os.geteuid() == 0 else Path.home() / ".local/state/llts"


def is_configuration(path: Path) -> bool:
    """Return whether a file is a configuration of this service, not that of another program."""
    if not path.is_file():
        return False
    try:
        return any(key.isupper() for key in tomllib.loads(path.read_text()))
    except ValueError:
        return True


def in_context(name: str) -> dict[str, Any]:
    """Return a context of the user: its address, and its key files if it has any."""
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    path = (base if base.is_absolute() else Path.home() / ".config") / "llts/contexts.toml"
    contexts: dict[str, dict[str, Any]] = read_toml(path).get("contexts", {})
    if name not in contexts:
        raise ConfigError(f"there is no context {name!r}; `llts context list` shows them, `llts context add` makes one")
    return contexts[name]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a file; empty if there is none."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return found


def read_keys(server: str | os.PathLike[str] | None, secret: str | os.PathLike[str] | None) -> Keys | None:
    """Return the keys in two files, or None without files."""
    return Keys(read_key(Path(server)), read_key(Path(secret), is_secret=True)) if server and secret else None


def read_key(path: Path, *, is_secret: bool = False) -> bytes:
    """Return the key in a file of one line."""
    try:
        mode = path.stat().st_mode
        text = path.read_bytes().split(b"\n", 1)[0].strip()
    except OSError as error:
        raise ConfigError(f"cannot read the key file {path}: {error}") from error
    if is_secret and stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{path} can be read by other users; run `chmod 600 {path}`")
    if len(text) != 40:
        raise KeyRefused(f"{path} does not hold a CURVE key: it needs 40 characters in its first line")
    return text
