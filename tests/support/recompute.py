"""The program that readers run to recompute the accuracy, loaded from where it is served."""

from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType


def load_recompute() -> ModuleType:
    """The program as a module of its own."""
    place = str(files("barograph.site") / "static" / "recompute_accuracy.py")
    spec = spec_from_file_location("recompute_accuracy", place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
