"""API shells for code in a sandbox, and code artifacts for whoever writes that code.

In a sandbox that was granted the shell "gmail", code uses the account and holds no key:

    import make_api_shell as make
    unread = make.call("gmail", "/users/me/messages", query={"q": "is:unread"})

Outside, E2B_API_URL and E2B_API_KEY say where the service is and who asks:

    make.write_code_artifact("tools/calc.py", "print(17 * 23)\\n", language="python", confirm=True)
    make.run_code_artifact("tools/calc.py")["stdout"]
"""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

SHELLS = "http://shell.atoll.internal"


class ShellError(Exception):
    """An answer that is no success: its status, and what it said."""

    def __init__(self, status, said):
        super().__init__(f"{status}: {said}")
        self.status, self.said = status, said


def _send(url, method, headers, data, timeout):
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return _read(answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        said = _read(error.headers, error.read())
        raise ShellError(error.code, said.get("message", said) if isinstance(said, dict) else said) from None


def _read(headers, body):
    text = body.decode("utf-8", "replace")
    if "json" not in (headers.get("Content-Type") or ""):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _headers(header):
    """A dict, or the list of {"key", "value"} that Make's modules take."""
    if isinstance(header, dict) or not header:
        return dict(header or {})
    return {one.get("key") or one.get("name"): one["value"] for one in header}


# ---- in a sandbox ----


def call(shell, path="/", method="GET", header=None, body=None, query=None, timeout=60):
    """The API's answer: what JSON says, or a text. ShellError for any other status than 2xx."""
    headers, data = _headers(header), body
    if body is not None and not isinstance(body, (str, bytes)):
        data = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    if isinstance(data, str):
        data = data.encode()
    url = f"{SHELLS}/{urllib.parse.quote(shell, safe='')}/{path.lstrip('/')}"
    if query:
        url += ("&" if "?" in url else "?") + urllib.parse.urlencode(query)
    return _send(url, method, headers, data, timeout)


# ---- outside ----


def _tool(name, fields):
    url, key = os.environ.get("E2B_API_URL"), os.environ.get("E2B_API_KEY")
    if not url or not key:
        raise RuntimeError("E2B_API_URL and E2B_API_KEY are not set: artifacts are kept from outside; code in a sandbox"
                           " holds no key")
    fields = {field: value for field, value in fields.items() if value is not None}
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    return _send(f"{url.rstrip('/')}/tools/{name}", "POST", headers, json.dumps(fields).encode(), 600)


def write_code_artifact(path, content, language=None, entrypoint=None, description=None, confirm=None):
    """Keeps code under Code/PATH. confirm=True overwrites what is there."""
    return _tool("write_code_artifact", {"codePath": path, "content": content, "language": language,
                                         "entrypoint": entrypoint, "description": description, "confirm": confirm})


def read_code_artifact(path):
    """The code and what is known of it."""
    return _tool("read_code_artifact", {"codePath": path})


def list_code_artifacts(prefix=None):
    """All of them, or those whose path begins so."""
    return _tool("list_code_artifacts", {"prefix": prefix})["artifacts"]


def delete_code_artifact(path):
    """For good."""
    return _tool("delete_code_artifact", {"codePath": path})


def run_code_artifact(path, input=None, language=None, entrypoint=None, mode=None, timeout_ms=None, shells=None):
    """Runs it in a fresh sandbox, which may use the shells that are named."""
    return _tool("run_code_artifact", {"codePath": path, "input": input, "language": language, "entrypoint": entrypoint,
                                       "mode": mode, "timeoutMs": timeout_ms, "shells": shells})
