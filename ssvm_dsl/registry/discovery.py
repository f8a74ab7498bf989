"""Which plug-ins are installed, and which of them are to be loaded.

The bundled ones come from this distribution and are loaded the same way, first, so that no stranger can take their
names.  ``SSVM_DISABLE_PLUGIN_AUTOLOAD=1`` loads bundled plug-ins only.  ``SSVM_PLUGINS=a,b`` loads, of the foreign
ones, only those named (by entry point or distribution) and lets ``auto`` choose them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from ssvm_dsl.registry.records import PluginInfo
from ssvm_dsl.version import __version__

GROUP = "ssvm"
DISTRIBUTION = "ssvm-dsl"

#: The formats of files that the package itself reads: there however it was installed.
OWN_FORMATS = (
    EntryPoint("formats", "ssvm_dsl.own_formats", GROUP),
    PluginInfo("formats", f"{DISTRIBUTION} {__version__}", bundled=True, allowed=True),
)


def discover() -> Iterator[tuple[EntryPoint, PluginInfo]]:
    """Yield the entry points to load, bundled first."""
    allow = {name.strip() for name in os.environ.get("SSVM_PLUGINS", "").split(",") if name.strip()}
    bundled_only = os.environ.get("SSVM_DISABLE_PLUGIN_AUTOLOAD", "") not in ("", "0")
    points = []
    for point in entry_points(group=GROUP):
        distribution, version = _distribution(point)
        bundled = distribution.lower().replace("_", "-") == DISTRIBUTION
        named = bool({point.name, distribution} & allow)
        if not bundled and (bundled_only or (allow and not named)):
            continue
        points.append((point, PluginInfo(point.name, f"{distribution} {version}".strip(), bundled, bundled or named)))
    points.sort(key=lambda pair: (not pair[1].bundled, pair[1].distribution, pair[1].name))
    seen: set[tuple[str, str]] = set()
    for point, info in points:
        if (point.name, point.value) not in seen:  # an editable install can be listed twice
            seen.add((point.name, point.value))
            yield point, info


def _distribution(point: EntryPoint) -> tuple[str, str]:
    """Return (name, version) of the distribution of an entry point, as far as its metadata can be read."""
    try:
        return (str(point.dist.name), str(point.dist.version)) if point.dist is not None else ("unknown", "")
    except Exception:  # METADATA is missing or has no name
        return "unknown", ""
