"""``skyband kernels``: where compiled kernels are kept, and how to be rid of them."""

from __future__ import annotations

from pathlib import Path


def run(forget: bool) -> None:
    """Print where compiled kernels are and how large they are, or delete them."""
    from skyband.kernels.jit import cache_folder, forget_compiled

    folder = cache_folder()
    if forget:
        print(f"deleted {_megabytes(forget_compiled(True))} of compiled kernels")
        return
    others = [other for other in folder.parent.glob("*") if other != folder]
    print(f"{folder}: {_megabytes(_size(folder))}")
    if others:
        size = _megabytes(sum(_size(other) for other in others))
        print(f"of other versions of the sources: {size}; skyband kernels --forget deletes all")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
