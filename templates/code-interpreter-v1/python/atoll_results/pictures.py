"""Pictures of PIL are shown when they are saved to a file or shown: there is no screen here."""

import functools
import importlib.machinery
import os
import sys

from IPython.display import display


def patch(module):
    """Gives the Image class of PIL.Image a save() and a show() that display it."""
    save = module.Image.save

    @functools.wraps(save)
    def save_and_show(image, fp, *args, **options):
        save(image, fp, *args, **options)
        # A figure that matplotlib saves is shown as a figure.
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if isinstance(fp, (str, os.PathLike)) and caller.partition(".")[0] != "matplotlib":
            display(image)

    def show(image, title=None):
        display(image)

    module.Image.save = save_and_show
    module.Image.show = show


class Finder:
    """Finds PIL.Image as all others would, and patches it when it has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "PIL.Image":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                patch(module)

            spec.loader.exec_module = exec_module
        return spec


def watch():
    sys.meta_path.insert(0, Finder())
