"""The OpenAPI document of the API, put together from the files below src/serve/api/openapi."""
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "src" / "serve" / "api" / "openapi"
VERSION = "@VERSION@"  # main.json has it in the place of the server's version


def add(into, more, name):
    twins = into.keys() & more.keys()
    if twins:
        raise SystemExit(f"openapi: {name}: {', '.join(sorted(twins))}: declared twice")
    into.update(more)


def load(folder=FOLDER):
    """One document: main.json, and the paths and schemas of all others."""
    document = json.loads((folder / "main.json").read_text())
    document["paths"] = {}
    for path in sorted(folder.glob("*.json")):
        if path.name != "main.json":
            part = json.loads(path.read_text())
            add(document["paths"], part["paths"], path.name)
            add(document["components"]["schemas"], part.get("schemas", {}), path.name)
    return document


def operations(document):
    """(METHOD, path, operation) of each."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def resolve(document, value):
    """What a value or its $ref stands for."""
    while "$ref" in value:
        found = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value
