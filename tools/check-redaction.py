#!/usr/bin/env python3
"""Fails when a file that handles secrets puts a text into a sentence without saying whose it is.

Once a secret was sent to another side, that side's bytes may be the secret. In the files of HOLDS, each text (%s) of
an error, a refusal or a log line is therefore one of:
  - guard_said(...), transfer_reason(...): another side's words, redacted first and cut afterwards (src/lib/guard/said.h);
  - ours(...): made by this side, or sent by whoever will read it;
  - a literal, err.msg or strerror(): sentences that were made the same way."""
import pathlib
import re
import sys

HOLDS = [
    "src/serve/egress/authority.c", "src/serve/egress/dial.c", "src/serve/egress/intercept.c", "src/serve/egress/outgoing_head.c",
    "src/serve/egress/intercepted.c", "src/serve/egress/proxy.c", "src/serve/egress/shell.c", "src/serve/egress/shell_call.c",
    "src/serve/egress/transform.c", "src/serve/secrets/shell/*.c", "src/serve/secrets/*.c", "src/serve/template/image/registry.c", "src/serve/template/image/challenge.c",
    "src/serve/template/image/credentials.c", "src/serve/telemetry/post.c", "src/serve/telemetry/deliver.c", "src/serve/telemetry/webhooks.c",
    "src/tools/artifacts.c", "src/tools/claude.c", "src/tools/claude_sandbox.c", "src/tools/guard_output.c",
    "src/tools/heartbeat.c", "src/tools/keys.c", "src/serve/api/for_tools.c", "src/serve/api/guard_team_secrets.c",
]
SENTENCES = re.compile(r"\b(err_set|err_sys|err_wrap|passage_refuse|log_debug|log_info|log_warn|log_error)\(")
FINE = re.compile(r'^(guard_said|ours|transfer_reason|strerror|uv_strerror|curl_easy_strerror|err_text)\(|^&?err(->|\.)msg$'
                  r'|^"')
CONVERSION = re.compile(r"%(?:%|[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?(?:hh|h|ll|l|z|j|t)?([a-zA-Z]))")


def arguments(text, at):
    """The arguments of a call whose opening parenthesis is before `at`."""
    depth, start, parts, quoted = 1, at, [], False
    while depth:
        c = text[at]
        if c == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        if not quoted and (depth == 0 or (c == "," and depth == 1)):
            parts.append(" ".join(text[start:at].split()))
            start = at + 1
        at += 1
    return parts


def branches(argument):
    """Both ends of a ?: are texts of the sentence."""
    depth = 0
    for i, c in enumerate(argument):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "?" and depth == 0:
            yes, _, no = argument[i + 1 :].partition(" : ")
            return [*branches(yes.strip()), *branches(no.strip())]
    return [argument]


def texts(parts):
    """The arguments that a format shows as text."""
    place = next((i for i, part in enumerate(parts) if '"' in part), None)
    if place is None:
        return []
    given, found = parts[place + 1 :], []
    for width, precision, kind in CONVERSION.findall("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts[place]))):
        if not kind:
            continue
        for _ in [part for part in (width, precision) if part == "*"]:
            given = given[1:]
        argument, given = given[0] if given else "", given[1:]
        if kind == "s":
            found.append(argument)
    return found


def main():
    bad = 0
    for pattern in HOLDS:
        if not any(pathlib.Path().glob(pattern)):
            print(f"tools/check-redaction.py: there is no file {pattern}")
            bad += 1
    for path in sorted(path for pattern in HOLDS for path in pathlib.Path().glob(pattern)):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text(), flags=re.S)
        for call in SENTENCES.finditer(text):
            for argument in texts(arguments(text, call.end())):
                for branch in branches(argument):
                    if not FINE.search(branch):
                        line = text.count("\n", 0, call.start()) + 1
                        print(f"{path}:{line}: whose words are {branch}? guard_said() redacts another side's,"
                              " ours() marks our own")
                        bad += 1
    return bad


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
