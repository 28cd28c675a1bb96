"""The Markdown pages of the checkout, for the tests of this folder."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Folders that a build or git makes.
_SKIPPED = ("build", ".git", "node_modules")


def all_pages():
    """Returns the paths of all pages, from the root of the checkout."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in sorted(files) if name.endswith(".md")]
    return found


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()
