"""The catalogue of tools over REST, as a workflow builder calls it."""

import httpx

CALL_S = 300


class Refused(Exception):
    """A tool answered with an error: its status and its sentence."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class Catalogue:
    """tools.NAME(field=value...) calls a tool and returns its answer."""

    def __init__(self, daemon, key=None):
        self.daemon, self.key = daemon, key
        self.outputs = {}  # the declared schema of each tool's answer

    def __getattr__(self, name):
        return lambda **fields: self.call(name, fields)

    def call(self, name, fields):
        key = self.key or self.daemon.key
        answer = httpx.post(f"{self.daemon.url}/tools/{name}", json=fields, timeout=CALL_S,
                            headers={"Authorization": f"Bearer {key}"})
        if answer.status_code != 200:
            raise Refused(answer.status_code, answer.json()["message"])
        self.check(name, answer.json())
        return answer.json()

    def check(self, name, answer):
        """An answer has the fields that its declaration promises, and no others."""
        if not self.outputs:
            listed = httpx.get(f"{self.daemon.url}/tools", headers={"X-API-Key": self.daemon.key}).json()
            self.outputs = {tool["name"]: tool["output_schema"] for tool in listed["tools"]}
        schema = self.outputs[name]
        assert set(schema["required"]) <= set(answer) <= set(schema["properties"]), (name, answer)
