"""Figures of matplotlib as chart data, in the shapes that the SDKs know."""

import sys

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode


class Formatter(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, str)

    def __call__(self, obj):
        figure = sys.modules.get("matplotlib.figure")
        if not isinstance(obj, getattr(figure, "Figure", ())):
            return super().__call__(obj)
        from e2b_charts import chart_figure_to_dict

        try:
            return chart_figure_to_dict(obj)
        except Exception:  # a figure it cannot read is still a picture
            return None
