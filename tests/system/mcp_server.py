"""An MCP server over standard input and output that does what the tests of the gateway ask it to.

    mcp_server.py NAME [fail | silent | greet]"""

import json
import os
import sys

NAME = sys.argv[1]
HOW = sys.argv[2] if len(sys.argv) > 2 else ""
PAGE = 3

tools = ["echo", "count", "wait", "cancelled", "die", "grow", "log", "touch"]
waiting, cancelled = [], []


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def about():
    return {
        "name": NAME, "args": sys.argv[2:], "cwd": os.getcwd(), "foo": os.environ.get("FOO"),
        "token": os.environ.get("GATEWAY_ACCESS_TOKEN"), "pid": os.getpid(),
    }  # fmt: skip


def call(name, arguments, params):
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        return text(json.dumps({**about(), "text": arguments.get("text")}))
    if name == "count":
        for i in range(arguments["n"]):
            send(method="notifications/progress",
                 params={"progressToken": token, "progress": i + 1, "total": arguments["n"]})  # fmt: skip
        return text("counted")
    if name == "cancelled":
        return text(json.dumps(len(cancelled)))
    if name == "die":
        print("dying as asked", file=sys.stderr, flush=True)
        sys.exit(3)
    if name == "grow":
        tools.append("grown")
        send(method="notifications/tools/list_changed")
    if name == "log":
        send(method="notifications/message", params={"level": "info", "logger": "x", "data": "said"})
    if name == "touch":
        send(method="notifications/resources/updated", params={"uri": arguments["uri"]})
    return text("done")


def tools_page(cursor):
    start = int(cursor or 0)
    page = [{"name": name, "inputSchema": {"type": "object"}} for name in tools[start : start + PAGE]]
    more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
    return {"tools": page, **more}


def answer(method, params):
    if method == "initialize":
        capabilities = {
            "tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True},
            "logging": {}, "completions": {},
        }  # fmt: skip
        return {
            "protocolVersion": params["protocolVersion"], "capabilities": capabilities,
            "serverInfo": {"name": NAME, "version": "1"}, "instructions": f"this is {NAME}",
        }  # fmt: skip
    if method == "tools/list":
        return tools_page(params.get("cursor"))
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}), params)
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
    if method == "prompts/get":
        said = f"{NAME} greets {params['arguments']['who']} with {params['name']}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
    if method == "resources/list":
        return {"resources": [{"uri": f"test://{NAME}/one", "name": "one"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": f"test://{NAME}/number/{{id}}", "name": "number"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"{NAME} has {params['uri']}"}]}
    if method == "completion/complete":
        return {"completion": {"values": [f"{NAME}:{params['ref'].get('name', params['ref'].get('uri'))}"]}}
    return {}


def take(message):
    method, params = message.get("method"), message.get("params", {})
    if method == "notifications/cancelled":
        cancelled.extend(id for id in waiting if id == params["requestId"])
    elif "id" in message and params.get("name") == "wait":
        waiting.append(message["id"])
    elif "id" in message and not (method == "initialize" and HOW == "silent"):
        send(id=message["id"], result=answer(method, params))


if HOW == "fail":
    print("this server has no license", file=sys.stderr)
    sys.exit(7)
if HOW == "silent":
    print("connecting to nowhere", file=sys.stderr, flush=True)
if HOW == "greet":
    print("Welcome to the server!", flush=True)
for line in sys.stdin:
    take(json.loads(line))
