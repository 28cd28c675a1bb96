"""The version of the project, from its CMakeLists.txt: builds write it into _version.py, or into the package's metadata."""

from importlib import metadata

try:
    from ._version import __version__
except ImportError:
    try:
        __version__ = metadata.version("tidepool")
    except metadata.PackageNotFoundError:
        __version__ = "unknown"  # Modules that no build has made.
