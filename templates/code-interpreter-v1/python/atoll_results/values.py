"""Lists and dicts as JSON, when all that they hold can be said in it."""

from IPython.core.formatters import JSONFormatter


class Formatter(JSONFormatter):
    def __call__(self, obj):
        if not isinstance(obj, (list, dict)):
            return super().__call__(obj)
        import orjson

        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        try:
            return orjson.loads(orjson.dumps(obj, option=options))
        except TypeError:  # also what holds itself
            return None
