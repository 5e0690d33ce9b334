#!/usr/bin/env python3
"""What tools/embed-catalogue takes and refuses: test_catalogue.py EMBED-CATALOGUE. TAP on stdout."""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

GOOD = {"name": "do_it", "title": "Do it", "description": "Does \"it\".\nAnd \\ more?", "reads_only": False,
        "destroys": True, "input": {"type": "object", "properties": {"a": {"type": "string", "description": "A."}}},
        "output": {"type": "object"}}


def changed(**fields):
    tool = copy.deepcopy(GOOD) | fields
    return json.dumps({name: value for name, value in tool.items() if value is not None})


REFUSED = {
    "a name that differs from its file's": (changed(name="do_that"), "name: is do_that, and the file says do_it"),
    "a missing field": (changed(title=None), "title: is missing"),
    "an empty field": (changed(description=""), "description: must be str and not empty"),
    "an unknown field": (changed(inputs={}), "inputs: there is no such field"),
    "a field of another type": (changed(destroys="yes"), "destroys: must be bool"),
    "what only reads and destroys": (changed(reads_only=True), "destroys: what only reads cannot"),
    "an input that is no object": (changed(input={"type": "string"}), "input: must be the schema of an object"),
    "a field without a description": (changed(input={"type": "object", "properties": {"a": {"type": "string"}}}),
                                      "input.a: has no description"),
    "a required field that is none": (changed(output={"type": "object", "required": ["x"]}),
                                      "output.required: x is no property"),
    "a field that is there twice": ('{"name": "do_it", "name": "do_it"}', "name: declared twice"),
    "what is no JSON": ("{", "is no JSON"),
}


def embed(program, text, times=1, options=()):
    """The exit code, what was said, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "do_it.json"
        file.write_text(text)
        table = pathlib.Path(folder) / "table.c"
        ran = subprocess.run([program, table, f"{folder}/handlers.h", *options, "--", "Group", *[file] * times],
                             capture_output=True, text=True, check=False)
        return ran.returncode, ran.stderr, table.read_text() if table.exists() else ""


def main(program):
    results = []
    code, said, table = embed(program, json.dumps(GOOD))
    results.append(("a whole declaration becomes a row of the table", code == 0 and
                    '{"do_it", "Group", "Do it", "Does \\"it\\".\\nAnd \\\\ more\\?"' in table and
                    '\\"additionalProperties\\":false' in table and "false, true, tool_do_it}" in table, said))
    code, said, _ = embed(program, json.dumps(GOOD), times=2)
    results.append(("a tool that is listed twice is refused", code == 1 and "is listed twice" in said, said))
    code, said, table = embed(program, json.dumps(GOOD), options=("--single", "the_one"))
    results.append(("a single declaration becomes a constant", code == 0 and
                    'const struct tool the_one = {"do_it", "Group"' in table and "tools_catalogue[]" not in table, said))
    for what, (text, sentence) in REFUSED.items():
        code, said, table = embed(program, text)
        results.append((f"{what} is refused", code == 1 and sentence in said and not table, said))
    print(f"1..{len(results)}")
    for number, (name, good, said) in enumerate(results, 1):
        print(f"{'' if good else 'not '}ok {number} - {name}" + ("" if good else f"\n# {said}"))
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
