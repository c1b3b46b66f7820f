"""Begins a packed helper. It stands alone in the file, below the line that says what that was made for."""

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile

_PREFIX = "gcs-helper-"


def _place() -> str:
    """A directory of our own, in memory if possible; those of helpers that were killed are removed."""
    forbidden = []
    for parent in ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()):  # noqa: S108 - as unique as any
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):  # noqa: PTH112 - nothing else is imported
            continue
        if os.statvfs(parent).f_flag & getattr(os, "ST_NOEXEC", 0):  # no library can be loaded from there
            forbidden.append(parent)
            continue
        for name in os.listdir(parent):  # noqa: PTH208
            pid = name[len(_PREFIX) :].partition("-")[0]
            if name.startswith(_PREFIX) and pid.isdigit() and not _lives(int(pid)):
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)  # noqa: PTH118
        return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)
    why = f" ({', '.join(forbidden)}: mounted with noexec)" if forbidden else ""
    raise SystemExit(f"gcs: there is no directory to unpack the helper into{why}; set TMPDIR to one.")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _main(made_for: str) -> None:
    here = f"{sysconfig.get_platform()} {sys.implementation.cache_tag}"
    if here != made_for:
        print(f"gcs: this helper was packed for {made_for}, and this is {here}.", file=sys.stderr)  # noqa: T201
        raise SystemExit(3)
    place = _place()
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with zipfile.ZipFile(sys.argv[0]) as archive:
        archive.extractall(place, [name for name in archive.namelist() if name.startswith("site/")])
    sys.path.insert(0, os.path.join(place, "site"))  # noqa: PTH118
    sys.dont_write_bytecode = True
    import cli

    cli.main(["helper", *sys.argv[1:]], prog_name="gcs")


if __name__ == "__main__":
    _main(globals()["MADE_FOR"])
