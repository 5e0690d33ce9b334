"""The declarations of the tool catalogue, read and checked (src/tools/tool.h says what they are)."""
import json
import pathlib
import re
import sys

FIELDS = {"name": str, "title": str, "description": str, "reads_only": bool, "destroys": bool,
          "input": dict, "output": dict}


class Refused(Exception):
    pass


def no_twins(pairs):
    names = [name for name, _ in pairs]
    twins = {name for name in names if names.count(name) > 1}
    if twins:
        raise Refused(f"{', '.join(sorted(twins))}: declared twice")
    return dict(pairs)


def load(path):
    """One declaration, checked."""
    try:
        tool = json.loads(path.read_text(), object_pairs_hook=no_twins)
    except ValueError as error:
        raise Refused(f"is no JSON: {error}") from error
    for field in tool.keys() - FIELDS.keys():
        raise Refused(f"{field}: there is no such field")
    for field, kind in FIELDS.items():
        if field not in tool:
            raise Refused(f"{field}: is missing")
        if not isinstance(tool[field], kind) or tool[field] == "":
            raise Refused(f"{field}: must be {kind.__name__} and not empty")
    if tool["name"] != path.stem:
        raise Refused(f"name: is {tool['name']}, and the file says {path.stem}")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", tool["name"]):
        raise Refused("name: must be lower-case words joined by _")
    if tool["reads_only"] and tool["destroys"]:
        raise Refused("destroys: what only reads cannot")
    for side in ("input", "output"):
        check_schema(side, tool[side])
    tool["input"].setdefault("additionalProperties", False)
    return tool


def check_schema(side, schema):
    """Every field is described: a model chooses by what it reads."""
    if schema.get("type") != "object":
        raise Refused(f"{side}: must be the schema of an object")
    properties = schema.setdefault("properties", {})
    for name in schema.get("required", []):
        if name not in properties:
            raise Refused(f"{side}.required: {name} is no property")
    for name, field in properties.items():
        if not field.get("description"):
            raise Refused(f"{side}.{name}: has no description")


def groups(words):
    """[(group, path)...] of the command line, in its order."""
    group = None
    for word in words:
        if word == "--":
            group = None
        elif group is None:
            group = word
        else:
            yield group, pathlib.Path(word)


def read(words):
    """[(group, tool)...] of a command line; ends the program with a sentence when one is not whole."""
    found = []
    for group, path in groups(words):
        try:
            tool = load(path)
            if tool["name"] in [other["name"] for _, other in found]:
                raise Refused("is listed twice")
        except Refused as why:
            sys.exit(f"{path}: {why}")
        found.append((group, tool))
    return found
