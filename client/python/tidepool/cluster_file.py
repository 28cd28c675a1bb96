"""Where the cluster is: the connection file that daemons write, found as kvctl and the C++ SDK find it."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import stat

from . import errors

_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM, as bytes. `name`: that the daemons' certificates are for; empty: each one's host."""
    ca: bytes
    name: str
    cert: bytes | None = None  # Shown to daemons that ask for one.
    key: bytes | None = None


@dataclasses.dataclass(frozen=True)
class ClusterFile:
    path: pathlib.Path
    token: str                    # Empty: the daemons know their user by MUNGE, see calls.py.
    nodes: list[tuple[str, str]]  # (host:port of the gRPC services, host name), by node.
    tls: Tls | None = None        # None: plain connections.

    def again(self) -> ClusterFile:
        """As it is now."""
        return _read(self.path)


def find(cluster: str | os.PathLike[str] | None) -> ClusterFile:
    """`cluster`, else TIDEPOOL_CLUSTER: it must exist. Else the first that does of the Slurm job's, the one in the
    working folder, and that of the user's own default service."""
    given = cluster or os.environ.get("TIDEPOOL_CLUSTER")
    if given:
        places = [pathlib.Path(given)]
    else:
        places = [pathlib.Path("tidepool-cluster.json"), _user_service()]
        folder, job = os.environ.get("SLURM_SUBMIT_DIR"), os.environ.get("SLURM_JOB_ID")
        if folder and job:
            places.insert(0, pathlib.Path(folder, f"tidepool-{job}.json"))
    for place in places:
        if place.exists():
            return _read(place.absolute())  # It is read again after the program has changed its folder.
    raise errors.NotFound("no service found; looked for " + ", ".join(map(str, places)),
                          "start one (kvctl start --local, or kvd), or name its connection file")


def _user_service() -> pathlib.Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        folder = pathlib.Path(runtime, "tidepool")
    else:
        folder = pathlib.Path(os.environ.get("TMPDIR") or "/tmp", f"tidepool-{os.geteuid()}")
    if folder.exists() and (folder.lstat().st_uid != os.geteuid() or stat.S_IMODE(folder.lstat().st_mode) & 0o077):
        raise errors.PermissionDenied(f"'{folder}' is not a folder of yours that is closed to others",
                                      f"chmod 700 {folder} if it is yours; else set XDG_RUNTIME_DIR")
    return folder / "cluster.json"


def _read(path: pathlib.Path) -> ClusterFile:
    info = path.stat()
    # Whoever writes it decides where the job token is sent.
    if info.st_uid not in (os.geteuid(), 0) or info.st_mode & 0o022:
        raise errors.PermissionDenied(f"the connection file '{path}' could have been written by another user",
                                      f"it must belong to you and be writable by you alone: chmod 600 {path}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise errors.Error(f"'{path}' has format {content['format']}", "use a client of the daemons' version",
                               "UNIMPLEMENTED")
        nodes = [(node["control_address"], node["host"]) for node in content["nodes"]]
        token = ""
        if content.get("auth") != "munge":
            token = (path.parent / content["token_file"]).read_text(encoding="ascii").strip()
        tls = _tls_of(content["tls"]) if "tls" in content else None
    except (ValueError, KeyError, TypeError) as error:
        raise errors.InvalidArgument(f"the connection file '{path}' is damaged: {error!r}",
                                     "start the cluster again") from None
    except OSError as error:
        raise errors.NotFound(f"the job token of '{path}' cannot be read: {error.strerror}",
                              "it lies beside the connection file, readable by you alone") from None
    if not nodes:
        raise errors.Unavailable(f"'{path}' names no node yet", "is a daemon running? see: kvctl status")
    return ClusterFile(path, token, nodes, tls)


def _tls_of(content: dict[str, object]) -> Tls:
    tls = Tls(str(content["ca"]).encode(), str(content["name"]))
    if not content["mutual"]:
        return tls
    paths = [os.environ.get("TIDEPOOL_TLS_CERT"), os.environ.get("TIDEPOOL_TLS_KEY")]
    if not all(paths):
        raise errors.FailedPrecondition("the daemons of this cluster ask for a certificate",
                                        "name yours, and its key, by TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY (files of PEM)")
    try:
        cert, key = [pathlib.Path(path).read_bytes() for path in paths if path]
    except OSError as error:
        raise errors.NotFound(f"'{error.filename}' cannot be read: {error.strerror}",
                              "see TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY") from None
    return dataclasses.replace(tls, cert=cert, key=key)
