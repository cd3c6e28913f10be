"""The peers' own environment, so that nobody who uses Holdfast has to install them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements-peers.txt"
PEERS = HERE / ".venv"

_INSTALLED = PEERS / "installed.txt"


class PeersUnavailable(Exception):
    """The peers could not be installed. The rest can be measured with ``--no-peers``."""


def ensure_peers() -> Path:
    """
    The interpreter of the peers' environment, installed first if it is not there or out of date.

    Raises:
        PeersUnavailable: The installer failed.
    """
    python = PEERS / "bin" / "python"
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text()}"
    if _INSTALLED.exists() and _INSTALLED.read_text() == wanted:
        return python
    print(f"Installing the peers into {PEERS} (once; see {REQUIREMENTS.name})", file=sys.stderr)
    shutil.rmtree(PEERS, ignore_errors=True)
    uv = _uv()
    if uv is not None:
        _call(uv, "venv", "--quiet", "--python", sys.executable, str(PEERS))
        _call(uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(REQUIREMENTS))
    else:
        _call(sys.executable, "-m", "venv", str(PEERS))
        _call(str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS))
    _INSTALLED.write_text(wanted)
    return python


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _call(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as exc:
        raise PeersUnavailable(f"{exc}; run with --no-peers to measure without them") from exc
