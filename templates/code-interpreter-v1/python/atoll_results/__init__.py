"""What the Python kernel shows of objects, as an IPython extension.

DataFrames get `e2b/data`, figures `e2b/chart`, lists and dicts `application/json`; pictures are shown
when they are saved or shown. Nothing is imported here for it: an object of a package can only be
there when its package is."""

from atoll_results import charts, pictures, tables, values


def load_ipython_extension(shell):
    formatters = shell.display_formatter.formatters
    for kind in (tables.Formatter, charts.Formatter, values.Formatter):
        formatter = kind(parent=shell.display_formatter)
        formatters[formatter.format_type] = formatter
    pictures.watch()
