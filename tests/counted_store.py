"""A store in this process's memory that reports digests and counts its requests."""

import hashlib
from collections import Counter
from typing import ClassVar

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem


class CountedStore(MemoryFileSystem):
    """Files as `memory://…`, with the requests of an object store.

    Attributes:
        requests: number by kind; HEAD asks for one file, LIST for the files of a folder.
        late: files that listings leave out.
    """

    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    requests: ClassVar = Counter()
    late: ClassVar = set()

    @classmethod
    def clear(cls):
        """Begin without files."""
        for each in (cls.store, cls.requests, cls.late):
            each.clear()

    def _described(self, info):
        if info["type"] == "file":
            content = self.store[info["name"]].getbuffer()
            info = {**info, "ETag": hashlib.md5(content, usedforsecurity=False).hexdigest()}
        return info

    def info(self, path, **kwargs):
        self.requests["HEAD"] += 1
        return self._described(super().info(path, **kwargs))

    def ls(self, path, detail=True, **kwargs):
        self.requests["LIST"] += 1
        found = super().ls(path, detail=True, **kwargs)
        found = [self._described(info) for info in found if info["name"] not in self.late]
        return found if detail else sorted(info["name"] for info in found)

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        self.requests["LIST"] += 1
        found = super().find(path, maxdepth, withdirs, detail=True, **kwargs)
        found = {name: self._described(i) for name, i in found.items() if name not in self.late}
        return found if detail else list(found)

    # places by name alone, as in s3fs, whose second argument is a version
    def cat_file(self, path, *, start=None, end=None, **kwargs):
        self.requests["GET"] += 1
        return super().cat_file(path, start, end)

    def _open(self, path, mode="rb", **kwargs):
        self.requests["HEAD"] += 1
        self.requests["GET"] += 1
        return super()._open(path, mode, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.requests["PUT"] += 1
        path = self._strip_protocol(path)
        self.store[path] = MemoryFile(self, path, value)

    def put_file(self, lpath, rpath, **kwargs):
        with open(lpath, "rb") as file:
            self.pipe_file(rpath, file.read())
