"""A web server that asks for a name, a password and a signature, and a store of its pages."""

import base64
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from fsspec.spec import AbstractFileSystem

USER = "me:SECRETpw"
SIGNATURES = ("SIGNATURE-one", "SIGNATURE-two")
SECRETS = ("SECRET", "SIGNATURE", base64.b64encode(USER.encode()).decode())


class Web:
    """The server; `pages` are its files by path, or by path and the last part of the query.

    Anyone is sent from `/moved/PATH` to `/PATH` of a host with a signature of its own.
    """

    def __init__(self, pages):
        self.pages, web = pages, self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                path, _, query = self.path.partition("?")
                if path.startswith("/moved/"):
                    self.send_response(302)
                    self.send_header("Location", f"{path[6:]}?X-Amz-Signature=SIGNATURE-moved")
                    self.end_headers()
                    return
                token = base64.b64encode(USER.encode()).decode()
                known = self.headers.get("Authorization") == f"Basic {token}"
                if not known or not any(signature in query for signature in SIGNATURES):
                    self.send_error(403)
                    return
                page = web.pages.get(f"{path}?{query.rpartition('&')[2]}", web.pages.get(path))
                if page is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(page)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.host = f"127.0.0.1:{self.server.server_port}"

    def url(self, path, *, user=USER, signature=SIGNATURES[0], host="", last="n=other.csv"):
        """A signed URL, whose query ends as the file does not."""
        query = f"X-Amz-Signature={signature}&X-Amz-Credential=A%2Fs3%2Faws4&{last}"
        return f"http://{user}@{host or self.host}{path}?{query}"


class Pages(AbstractFileSystem):
    """Web pages for fsspec, with the errors of its own store for them but without its library."""

    protocol = ("http", "https")

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def unstrip_protocol(self, name):
        return name

    def info(self, path, **_):
        try:
            return {"name": path, "size": len(self._content(path)), "type": "file"}
        except (FileNotFoundError, RefusedError) as e:
            raise FileNotFoundError(path) from e

    def isdir(self, path):
        del path
        return False

    def cat_file(self, path, start=None, end=None, **_):
        return self._content(path)[start:end]

    def _open(self, path, *_, **__):
        self.info(path)
        return io.BytesIO(self._content(path))

    def _content(self, path):
        url = urlsplit(path)
        user, _, host = url.netloc.rpartition("@")
        token = base64.b64encode(unquote(user).encode()).decode()
        request = Request(url._replace(netloc=host).geturl())
        request.add_header("Authorization", f"Basic {token}")
        try:
            with urlopen(request) as answer:
                return answer.read()
        except HTTPError as e:
            e.close()
            if e.code == 404:
                raise FileNotFoundError(path) from None
            raise RefusedError(e.code, e.url) from None
        except URLError as e:
            raise RefusedError(0, path) from e


class RefusedError(Exception):
    """An answer other than a page; its text has the URL, as those of libraries do."""

    def __init__(self, status, url):
        super().__init__(f"{status}, message='Refused', url='{url}'")
        self.status = status


RefusedError.__module__ = "aiohttp"
