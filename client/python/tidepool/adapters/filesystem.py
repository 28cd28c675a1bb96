"""An fsspec file system over staged trees: `tidepool://NAMESPACE/path`.

    fs = fsspec.filesystem("tidepool")          # After: import tidepool.adapters.filesystem
    fs.find("dataset/train"); fs.open("dataset/train/0.npy")

A file is read as a whole when it is opened; large staged files need the native client. Directories are the prefixes of
paths. A file that is written becomes one record, of at most 1 GiB, when it is closed.
"""

from __future__ import annotations

import io
from typing import Any

import fsspec
from fsspec.spec import AbstractFileSystem

import tidepool


class _Written(io.BytesIO):
    """Puts its content when it is closed without an exception."""

    def __init__(self, space: Any, key: str, content: bytes = b""):
        super().__init__(content)
        self.seek(0, io.SEEK_END)
        self._space, self._key, self._failed = space, key, False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._failed = kind is not None
        super().__exit__(kind, error, trace)

    def close(self) -> None:
        if not self.closed and not self._failed:
            self._space.put(self._key, self.getvalue())
        super().close()


class TidepoolFileSystem(AbstractFileSystem):
    """`cluster`: the connection file; None as in tidepool.connect. `client`: one that is there."""

    protocol = "tidepool"
    root_marker = ""
    cachable = False  # Listings change with the namespace.

    def __init__(self, cluster: str | None = None, client: Any = None, **options: Any):
        super().__init__(**options)
        self._client = client or tidepool.connect(cluster)

    # ---- Names.

    @classmethod
    def _parts(cls, path: str) -> tuple[str, str]:
        """Returns the namespace and the path inside it."""
        name, _, inside = cls._strip_protocol(path).partition("/")
        return name, inside

    def _space(self, name: str) -> Any:
        try:
            return self._client[name]
        except tidepool.NotFound:
            raise FileNotFoundError(name) from None

    def _files(self, name: str) -> list[tuple[str, int]]:
        try:
            return [(file.path.decode("utf-8", "surrogateescape"), file.size) for file in self._client.list_files(name)]
        except tidepool.NotFound:
            raise FileNotFoundError(name) from None

    @staticmethod
    def _entry(path: str, size: int = 0, kind: str = "file") -> dict[str, Any]:
        return {"name": path, "size": size, "type": kind}

    def _listed(self, name: str, inside: str, deep: bool) -> dict[str, dict[str, Any]]:
        """Returns what lies below a directory, which need not exist: its own entries, or all."""
        base, found = (inside + "/" if inside else ""), {}
        for path, size in self._files(name):
            if path == inside:
                found[f"{name}/{path}"] = self._entry(f"{name}/{path}", size)
            if not path.startswith(base):
                continue
            folders = path[len(base):].split("/")[:-1]
            if deep or not folders:
                found[f"{name}/{path}"] = self._entry(f"{name}/{path}", size)
            for depth in range(len(folders) if deep else min(1, len(folders))):
                folder = f"{name}/{base}" + "/".join(folders[:depth + 1])
                found[folder] = self._entry(folder, kind="directory")
        return found

    # ---- fsspec's interface.

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        name, inside = self._parts(path)
        if not name:
            entries = [self._entry(space, kind="directory") for space in self._client]
        else:
            entries = sorted(self._listed(name, inside, False).values(), key=lambda entry: entry["name"])
            if not entries and inside:
                raise FileNotFoundError(path)
        return entries if detail else [entry["name"] for entry in entries]

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any) -> Any:
        """One walk over the namespace, whatever the depth of the tree."""
        name, inside = self._parts(path)
        if not name:
            return super().find(path, maxdepth, withdirs, detail=detail)
        root = f"{name}/{inside}".rstrip("/")
        found = {}
        for entry in self._listed(name, inside, True).values():
            depth = entry["name"][len(root):].count("/")
            if (withdirs or entry["type"] == "file") and (maxdepth is None or depth <= maxdepth):
                found[entry["name"]] = entry
        return {key: found[key] for key in sorted(found)} if detail else sorted(found)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name, inside = self._parts(path)
        if not inside:
            if name:
                self._space(name)
            return self._entry(name, kind="directory")
        entries = self._listed(name, inside, False)
        if f"{name}/{inside}" in entries:
            return entries[f"{name}/{inside}"]
        if not entries:
            raise FileNotFoundError(path)
        return self._entry(f"{name}/{inside}", kind="directory")

    def _read(self, path: str) -> bytes:
        name, inside = self._parts(path)
        try:
            if hasattr(self._client, "read_file"):
                return self._client.read_file(name, inside)
            value = self._client[name][inside]
            return value if isinstance(value, bytes) else str(value).encode()
        except tidepool.NotFound:
            raise FileNotFoundError(path) from None

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return self._read(path)[start:end]

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        name, inside = self._parts(path)
        self._space(name).put(inside, value)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:  # type: ignore[override]
        name, inside = self._parts(path)
        if mode == "rb":
            return io.BytesIO(self._read(path))
        if mode == "wb":
            return _Written(self._space(name), inside)
        if mode == "ab":
            return _Written(self._space(name), inside, self._read(path) if self.exists(path) else b"")
        raise ValueError(f"a file is opened as rb, wb or ab, not {mode}")

    def rm_file(self, path: str) -> None:
        name, inside = self._parts(path)
        try:
            del self._space(name)[inside]
        except tidepool.NotFound:
            if self.exists(path):
                raise OSError(f"{path} was staged in parts: remove it with kvctl") from None
            raise FileNotFoundError(path) from None

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for each in [path] if isinstance(path, str) else path:
            if recursive:
                for file in self.find(each, maxdepth):
                    self.rm_file(file)
            else:
                for file in self.expand_path(each):
                    self.rm_file(file)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.pipe_file(path2, self._read(path1))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes the namespace of a path that names one; directories need no making."""
        name, inside = self._parts(path)
        if not inside:
            self._client.create(name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Directories go with their last file."""


fsspec.register_implementation("tidepool", TidepoolFileSystem, clobber=True)
