"""Figures of matplotlib: a picture, and chart data in the shapes of the SDK."""

import base64

import pytest
from e2b_code_interpreter.charts import (
    BarChart,
    BoxAndWhiskerChart,
    ChartType,
    LineChart,
    PieChart,
    ScaleType,
    ScatterChart,
    SuperChart,
)

PLOT = "import matplotlib.pyplot as plt\nimport numpy as np\n"


@pytest.fixture
def draw(interpreter):
    """Runs the code and gives the one figure that it drew."""

    def run(code):
        execution = interpreter.run_code(PLOT + code)
        assert execution.error is None, execution.error.traceback
        figures = [result for result in execution.results if result.png]
        assert len(figures) == 1
        assert base64.b64decode(figures[0].png).startswith(b"\x89PNG")
        return figures[0].chart

    return run


def test_line(draw):
    chart = draw(
        "plt.plot([1, 2, 3], [1, 4, 9], label='squares')\n"
        "plt.plot([1, 2, 3], [1, 8, 27], label='cubes')\n"
        "plt.title('Powers'); plt.xlabel('n (items)'); plt.ylabel('size (m)')\nplt.show()"
    )
    assert isinstance(chart, LineChart) and chart.type == ChartType.LINE
    assert (chart.title, chart.x_label, chart.x_unit) == ("Powers", "n (items)", "items")
    assert (chart.y_label, chart.y_unit) == ("size (m)", "m")
    assert [line.label for line in chart.elements] == ["squares", "cubes"]
    assert [tuple(p) for p in chart.elements[1].points] == [(1, 1), (2, 8), (3, 27)]
    assert chart.x_scale == ScaleType.LINEAR and chart.y_scale == ScaleType.LINEAR
    assert all(isinstance(label, str) for label in chart.x_tick_labels)
    assert len(chart.x_ticks) == len(chart.x_tick_labels) > 0


def test_a_figure_that_nobody_showed(draw):
    assert draw("plt.plot([1, 2])").type == ChartType.LINE


def test_a_figure_that_is_the_last_expression(interpreter):
    results = interpreter.run_code(PLOT + "fig, ax = plt.subplots()\nax.plot([1])\nfig").results
    assert results and all(result.png and result.chart.type == ChartType.LINE for result in results)


def test_dates_on_an_axis(draw):
    chart = draw(
        "import datetime\n"
        "days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]\n"
        "plt.plot(days, [1, 2, 3]); plt.show()"
    )
    assert chart.x_scale == ScaleType.DATETIME
    assert str(chart.elements[0].points[0][0]).startswith("2024-01-01")


def test_names_on_an_axis(draw):
    chart = draw("plt.plot(['a', 'b', 'c'], [1, 2, 3]); plt.show()")
    assert chart.x_scale == ScaleType.CATEGORICAL


@pytest.mark.parametrize("scale", ["log", "symlog", "logit", "asinh"])
def test_scales(draw, scale):
    chart = draw(f"plt.plot([1, 2, 3], [0.1, 0.5, 0.9]); plt.yscale('{scale}'); plt.show()")
    assert chart.y_scale.value == scale


def test_scatter(draw):
    chart = draw("plt.scatter([1, 2], [3, 4], label='dots'); plt.show()")
    assert isinstance(chart, ScatterChart)
    assert chart.elements[0].label == "dots"
    assert [tuple(p) for p in chart.elements[0].points] == [(1, 3), (2, 4)]


def test_bars(draw):
    chart = draw("plt.bar(['x', 'y'], [3, 5], label='Sales'); plt.title('Year'); plt.show()")
    assert isinstance(chart, BarChart) and chart.title == "Year"
    assert [(bar.label, float(bar.value)) for bar in chart.elements] == [("x", 3), ("y", 5)]


def test_pie(draw):
    chart = draw("plt.pie([1, 3], labels=['part', 'rest']); plt.title('Cake'); plt.show()")
    assert isinstance(chart, PieChart) and chart.title == "Cake"
    assert [(slice.label, round(slice.angle)) for slice in chart.elements] == [
        ("part", 90),
        ("rest", 270),
    ]


def test_boxes(draw):
    chart = draw(
        "plt.boxplot([[1, 2, 3, 4, 5], [89, 95, 76, 91, 84, 87]], tick_labels=['few', 'many'],\n"
        "            patch_artist=True)\nplt.show()"
    )
    assert isinstance(chart, BoxAndWhiskerChart)
    few, many = chart.elements
    assert (few.label, few.min, few.first_quartile, few.median) == ("few", 1, 2, 3)
    assert (few.third_quartile, few.max, few.outliers) == (4, 5, [])
    assert (many.label, many.max, many.outliers) == ("many", 95, [76])


def test_several_in_one(draw):
    chart = draw(
        "fig, (left, right) = plt.subplots(1, 2)\n"
        "left.plot([1, 2]); left.set_title('Left')\n"
        "right.bar(['a'], [1]); right.set_title('Right')\nplt.show()"
    )
    assert isinstance(chart, SuperChart) and chart.type == ChartType.SUPERCHART
    assert [(one.type, one.title) for one in chart.elements] == [
        (ChartType.LINE, "Left"),
        (ChartType.BAR, "Right"),
    ]


def test_what_has_no_shape(draw):
    chart = draw("plt.imshow(np.zeros((2, 2))); plt.show()")
    assert chart.type == ChartType.UNKNOWN


def test_seaborn(draw):
    chart = draw(
        "import seaborn, pandas\n"
        "seaborn.barplot(pandas.DataFrame({'k': ['a', 'b'], 'v': [1, 2]}), x='k', y='v')\nplt.show()"
    )
    assert chart.type == ChartType.BAR


def test_a_saved_figure_is_not_shown_twice(interpreter):
    execution = interpreter.run_code(PLOT + "plt.plot([1])\nplt.savefig('/tmp/f.png')\nplt.close()")
    assert execution.results == []
    assert bytes(interpreter.files.read("/tmp/f.png", format="bytes")).startswith(b"\x89PNG")


def test_plotly_comes_as_a_page(interpreter):
    result = interpreter.run_code(
        "import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[2, 3]))"
    ).results[0]
    assert "Plotly.newPlot" in result.html
