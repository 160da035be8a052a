"""What a backend says of itself without being loaded: its manifest."""

from __future__ import annotations

from pygpuhash import _core, manifest, registry
from pygpuhash._conformance.harness import Failure, Skipped, Target, check


@check()
def manifest_is_true(target: Target) -> None:
    """The manifest beside a module says what the module says."""
    found = registry.resolve(target.backend)
    if isinstance(found, type):
        raise Skipped("the backend is a Python class")
    path = _core.backend_load(found)["path"]
    if manifest.read(path) is None:
        raise Skipped(f"there is no {manifest.path_beside(path).name} beside the module")
    if (wrong := manifest.untrue(path, registry.module_of(target.backend))) is not None:
        raise Failure(wrong)
