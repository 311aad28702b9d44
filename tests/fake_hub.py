"""A local server that answers as the Hugging Face hub does, for what corpusfit asks of it."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import unquote, urlsplit


class Hub(BaseHTTPRequestHandler):
    """Repositories by name, with the files of `main` and those of other branches and tags."""

    made: ClassVar[dict] = {}
    asked: ClassVar[list] = []

    def log_message(self, *_):
        pass

    def answer(self, found, code=200, **headers):
        data = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def repository(self, words, revision="main"):
        """The files of the repository that a path begins with, at a branch, tag or commit."""
        name = "/".join(words)
        if name not in self.made:
            self.answer({"error": "Not found"}, 404, X_Error_Code="RepoNotFound")
            return None
        revisions = {"main": self.made[name]["files"], **self.made[name].get("revisions", {})}
        revisions |= {commit(files): files for files in revisions.values()}
        if revision not in revisions:
            self.answer({"error": "Invalid rev id"}, 404, X_Error_Code="RevisionNotFound")
            return None
        return revisions[revision]

    def do_GET(self):
        self.asked.append(self.path)
        words = [unquote(word) for word in urlsplit(self.path).path.strip("/").split("/")]
        if words[0] == "api":
            of_revision = words[5:6] if words[4:5] in (["tree"], ["revision"]) else []
            files = self.repository(words[2:4], *of_revision)
            if files is None:
                return
            sha = commit(files)
            if words[4:5] == ["refs"]:
                others = self.made["/".join(words[2:4])].get("revisions", {})
                branches = [{"name": name, "ref": name, "targetCommit": sha} for name in others]
                main = {"name": "main", "ref": "refs/heads/main", "targetCommit": sha}
                self.answer({"branches": [main, *branches], "tags": [], "converts": []})
            elif words[4:5] == ["tree"]:
                inside = "/".join(words[6:])
                self.answer(
                    [entry(path, data) for path, data in files.items() if path.startswith(inside)]
                )
            else:
                siblings = [{"rfilename": path} for path in files]
                name = "/".join(words[2:4])
                self.answer({"sha": sha, "siblings": siblings, "id": name, "tags": []})
        elif "resolve" in words:
            at = words.index("resolve")
            files = self.repository(words[at - 2 : at], words[at + 1])
            path = "/".join(words[at + 2 :])
            if files is None:
                return
            if path not in files:
                self.answer({}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit(files))
                return
            headers = {"ETag": f'"{oid(files[path])}"', "X_Repo_Commit": commit(files)}
            self.answer(files[path], **headers)
        else:
            self.answer({}, 404)

    do_HEAD = do_GET

    def do_POST(self):
        self.asked.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "/paths-info/" in self.path:
            words = self.path.split("/")
            files = self.repository(words[3:5], unquote(words[6]))
            wanted = json.loads(body)["paths"]
            self.answer([entry(path, files[path]) for path in wanted if path in files])
        else:
            self.answer({"errors": [], "warnings": []})


def oid(data):
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def commit(files):
    """The revision: a digest of all files."""
    return oid(json.dumps({path: oid(data) for path, data in files.items()}).encode())


def entry(path, data):
    return {"type": "file", "path": path, "size": len(data), "oid": oid(data)}
