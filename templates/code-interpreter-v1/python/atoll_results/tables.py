"""DataFrames as data: a list of values for each column."""

import math
import sys

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

CELLS_MAX = 1_000_000  # a larger one is shown as text and html alone


def plain(value, pandas):
    """What JSON has for it: numbers, texts, true, false, null; dates and all else as text."""
    if value is None or value is pandas.NaT or value is pandas.NA:
        return None
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


class Formatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, str)

    def __call__(self, obj):
        pandas = sys.modules.get("pandas")
        if not isinstance(obj, getattr(pandas, "DataFrame", ())):
            return super().__call__(obj)
        if obj.size > CELLS_MAX:
            return None
        # By position: names of columns may come twice.
        columns = (obj.iloc[:, i].tolist() for i in range(obj.shape[1]))
        return {
            str(name): [plain(value, pandas) for value in values]
            for name, values in zip(obj.columns, columns)
        }
