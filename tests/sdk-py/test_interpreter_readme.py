"""The programs of the README and of the guide that use the code interpreter, taken from there and run.

No model is asked: its replies were recorded."""

import re
import uuid
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
PAGES = [TREE / "README.md", TREE / "docs/guide/patterns.md"]
FENCE = chr(96) * 3


def program(needle, **names):
    """Runs the one program of the pages that holds the needle; its names."""
    text = "".join(page.read_text() for page in PAGES)
    blocks = re.findall(f"{FENCE}python\\n(.*?){FENCE}", text, re.DOTALL)
    [source] = [block for block in blocks if needle in block]
    exec(compile(source, needle, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def template(interpreter_template):
    pass


def test_the_first_lines(capsys):
    program("x = 41")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "42"
    assert lines[1].startswith("['v")


def test_a_model_that_runs_code():
    asked = []
    recorded = [
        [
            {"type": "text", "text": "I count them."},
            {
                "type": "tool_use",
                "id": "call_1",
                "input": {"code": "words = 'to be or not to be'.split()\nprint(len(words))"},
            },
        ],
        [
            {"type": "tool_use", "id": "call_2", "input": {"code": "len(set(words))"}},
            {"type": "tool_use", "id": "call_3", "input": {"code": "words.missing"}},
        ],
        [{"type": "text", "text": "Six words, four of them different."}],
    ]

    def ask_model(messages, tools):
        asked.append([message for message in messages])
        assert tools[0]["name"] == "run_python"
        return recorded[len(asked) - 1]

    names = program("def answer(", ask_model=ask_model)
    assert names["answer"]("How many words?") == "Six words, four of them different."
    first, second = asked[1][-1]["content"], asked[2][-1]["content"]
    assert '"stdout": "6\\n"' in first[0]["content"]
    assert first[0]["tool_use_id"] == "call_1"
    assert '"result": "4"' in second[0]["content"]
    assert "AttributeError: 'list' object has no attribute 'missing'" in second[1]["content"]


def test_a_chart_of_an_uploaded_file(tmp_path):
    reply = (
        "import matplotlib.pyplot as plt\n"
        "table = pd.read_csv('data.csv')\n"
        "plt.bar(table['city'], table['people'])\n"
        "plt.title('People')\n"
        "plt.show()"
    )

    def ask_model(messages, tools):
        assert "city" in messages[0]["content"] and "Bern" in messages[0]["content"]
        return [{"type": "text", "text": reply}]

    names = program("def chart_of(", ask_model=ask_model)
    csv = "city,people\nBern,134\nGenf,203\n"
    chart = names["chart_of"](csv, "Draw it", tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert chart.title == "People"
    assert [bar.label for bar in chart.elements] == ["Bern", "Genf"]


def test_a_session_for_each_user():
    session_of = program("def session_of(")["session_of"]
    ada, bob = f"ada-{uuid.uuid4()}", f"bob-{uuid.uuid4()}"
    sessions = [session_of(ada), session_of(bob)]
    try:
        sessions[0].run_code("name = 'Ada'")
        again = session_of(ada)
        assert again.sandbox_id == sessions[0].sandbox_id
        assert again.run_code("name").text == "Ada"
        assert session_of(bob).run_code("name").error.name == "NameError"
    finally:
        for session in sessions:
            session.kill()
