"""What cells of the code interpreter may import without installing it, and what installing more says."""

import json
import pathlib

import pytest

IMAGE = pathlib.Path(__file__).resolve().parents[2] / "templates" / "code-interpreter-packages"

# All modules of each package: what is installed, against what is listed; and what each import said.
IMPORT_ALL = """
import importlib, importlib.metadata, json, re
def plain(name): return re.sub(r"[-_.]+", "-", name).lower()
modules = {}
for module, owners in importlib.metadata.packages_distributions().items():
    for owner in owners:
        modules.setdefault(plain(owner), []).append(module)
wrong = {}
for name, version in WANTED.items():
    try:
        found = importlib.metadata.version(name)
        assert found == version, f"it is {found}"
        assert modules[plain(name)], "it has no module"
        for module in modules[plain(name)]:
            if not module.startswith("_"):
                importlib.import_module(module)
    except BaseException as error:
        wrong[name] = repr(error)
print(json.dumps(wrong))
"""

# One thing of each that is more than a wrapper: compiled parts are loaded, and do what they are for.
USES = {
    "opencv": "import cv2, numpy; cv2.resize(numpy.zeros((8, 8, 3), 'uint8'), (4, 2)).shape",
    "spacy": "import spacy; [token.text for token in spacy.blank('en')('Hello there, world')]",
    "gensim": "from gensim.models import Word2Vec\n"
              "len(Word2Vec([['a', 'b']] * 9, vector_size=4, min_count=1, workers=1).wv)",
    "librosa": "import librosa, numpy; librosa.feature.rms(y=numpy.ones(4096, 'float32')).shape",
    "bokeh": "from bokeh.plotting import figure\nfrom bokeh.embed import file_html\n"
             "plot = figure(); _ = plot.line([1, 2], [3, 4]); '<html' in file_html(plot)",
    "numba": "import numba; numba.njit(lambda x: x + 1)(41)",
    "skimage": "from skimage import filters; import numpy; float(filters.sobel(numpy.ones((4, 4))).sum())",
    "docx": "import docx, io; d = docx.Document(); _ = d.add_paragraph('x'); d.save(io.BytesIO()); len(d.paragraphs)",
}
USED = {
    "opencv": "(2, 4, 3)", "spacy": "['Hello', 'there', ',', 'world']", "gensim": "2", "librosa": "(1, 9)",
    "bokeh": "True", "numba": "42", "skimage": "0.0", "docx": "1",
}


def listed():
    lines = (line.partition("#")[0].strip() for line in (IMAGE / "requirements.in").read_text().splitlines())
    return dict(line.split("==") for line in lines if line)


def said(run):
    return "".join(run.logs.stdout), "".join(run.logs.stderr)


def test_every_python_package_of_the_list_is_imported(new_interpreter):
    run = new_interpreter().run_code(f"WANTED = {listed()!r}\n{IMPORT_ALL}", timeout=300)
    assert run.error is None, run.error
    assert json.loads(said(run)[0].splitlines()[-1]) == {} and len(listed()) > 35


@pytest.mark.parametrize("name", USES)
def test_packages_do_what_they_are_for(interpreter, name):
    run = interpreter.run_code(USES[name], timeout=120)
    assert run.error is None, run.error
    assert run.text == USED[name]


@pytest.mark.parametrize("language", ["ts", "js"])
def test_every_javascript_package_of_the_list_is_imported(interpreter, language):
    names = list(json.loads((IMAGE / "node" / "package.json").read_text())["dependencies"])
    assert "axios" in names
    run = interpreter.run_code(
        "\n".join(f"import * as m{i} from '{name}'" for i, name in enumerate(names))
        + f"\n[{', '.join(f'm{i}' for i in range(len(names)))}].filter((m) => Object.keys(m).length > 0).length",
        language=language, timeout=120)
    assert run.error is None and said(run) == ("", ""), (run.error, said(run))
    assert run.text == str(len(names))


@pytest.mark.parametrize("language", ["ts", "js"])
def test_a_cell_imports_axios_as_it_likes(interpreter, language):
    interpreter.commands.run("python3 -m http.server 8123 --directory /etc", background=True)
    interpreter.commands.run("until curl -sf localhost:8123/hostname; do sleep 0.1; done")
    host = interpreter.files.read("/etc/hostname").strip()
    get = "(await axios.get('http://localhost:8123/hostname')).data.trim()"
    for head in ("import axios from 'axios'", "import { default as axios } from \"axios\"",
                 "const axios = require('axios')", "const { default: axios } = await import('axios')"):
        run = interpreter.run_code(f"{head};\n{get}", language=language)
        assert run.error is None and said(run) == ("", ""), (head, run.error, said(run))
        assert run.text.strip("'\"") == host
    run = interpreter.run_code("import nothing from 'no-such-package'", language=language)
    assert run.error.name == "Error" and "no-such-package" in run.error.value


def test_a_package_of_one_s_own_comes_before_those_of_the_image(new_interpreter):
    sandbox = new_interpreter()
    sandbox.files.write("node_modules/axios/package.json", '{"name": "axios", "main": "own.js"}')
    sandbox.files.write("node_modules/axios/own.js", "module.exports = { whose: 'mine' }")
    for cell in "import axios from 'axios'; axios.whose", "require('axios').whose":
        assert sandbox.run_code(cell, language="js").text.strip("'\"") == "mine"


def test_pip_in_a_cell_prints_no_warnings(new_interpreter):
    sandbox = new_interpreter()
    for command in "!pip install first", "!pip install --upgrade six", "%pip install --quiet second":
        run = sandbox.run_code(command, timeout=180)
        text = "".join(said(run)).lower()
        assert run.error is None and "warning" not in text and "notice" not in text and "cache" not in text, text
    assert sandbox.run_code("import first; first.__name__").text == "first"


def test_what_pip_installs_for_the_user_is_on_the_path(interpreter):
    done = interpreter.commands.run("pip install cowsay && command -v cowsay && cowsay -t found", timeout=180)
    assert "/home/user/.local/bin/cowsay" in done.stdout and "found" in done.stdout
    assert "warning" not in (done.stdout + done.stderr).lower(), done


def test_packages_are_compiled(interpreter):
    """pip builds what has no wheel, with the image's compiler and Python's headers."""
    interpreter.files.write("built/setup.py", "from setuptools import Extension, setup\n"
                            "setup(name='atoll_built', version='1', ext_modules=[Extension('atoll_built', ['b.c'])])")
    interpreter.files.write("built/b.c", "#include <Python.h>\n"
                            "static struct PyModuleDef m = {PyModuleDef_HEAD_INIT, .m_name = \"atoll_built\"};\n"
                            "PyMODINIT_FUNC PyInit_atoll_built(void) { return PyModule_Create(&m); }")
    done = interpreter.commands.run(
        "pip install --no-build-isolation ./built && python3 -c 'import atoll_built'", timeout=180)
    assert done.exit_code == 0


def test_charts_have_glyphs_for_chinese_japanese_and_korean(interpreter):
    run = interpreter.run_code("import matplotlib.pyplot as plt\nplt.title('你好 こんにちは 안녕 hello')\nplt.plot([1, 2])\nplt.show()")
    assert run.error is None and run.results[0].png
    assert "glyph" not in said(run)[1].lower() and "findfont" not in said(run)[1], said(run)


def test_r_has_its_recommended_packages(interpreter):
    run = interpreter.run_code("suppressMessages({library(MASS); library(survival); library(Matrix)}); cat('loaded')",
                               language="r", timeout=120)
    assert run.error is None and said(run)[0].strip() == "loaded"
