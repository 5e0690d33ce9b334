"""CAMEL: E2BInterpreter and the toolkit over it, with SDKs of version 1."""

import base64
import re

from camel.interpreters import E2BInterpreter
from camel.toolkits import CodeExecutionToolkit
from steps import run, step


def python(interpreter):
    assert "42" in interpreter.run("x = 41\nprint('printed')\nx + 1", "python")
    assert interpreter.run("x", "py3").splitlines()[0] == "41"
    assert "ZeroDivisionError" in interpreter.run("1 / 0", "python")


def languages(interpreter):
    assert "in bash" in interpreter.run("echo in bash", "bash")
    assert "in js" in interpreter.run("console.log('in js')", "javascript")
    assert "in r" in interpreter.run("cat('in r')", "r")
    assert "in java" in interpreter.run('System.out.println("in java");', "java")


def picture(interpreter):
    said = interpreter.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", "python")
    data = re.search(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)\)", said)[1]
    assert base64.b64decode(data)[:4] == b"\x89PNG", said[:200]


def command(interpreter):
    assert interpreter.execute_command("echo out").stdout == "out\n"


def toolkit():
    toolkit = CodeExecutionToolkit(sandbox="e2b")
    assert "42" in toolkit.execute_code("6 * 7")


def main():
    interpreter = E2BInterpreter(require_confirm=False)
    step("Python", python, interpreter)
    step("Bash, JavaScript, R, Java", languages, interpreter)
    step("picture", picture, interpreter)
    step("command", command, interpreter)
    step("toolkit", toolkit)
    interpreter.__del__()


if __name__ == "__main__":
    run(main)
