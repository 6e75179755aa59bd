"""An environment of its own for a peer, made once beside the project's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def peer_python(name: str, *requirements: str) -> Path:
    """Gives the Python of an environment that holds `requirements`, made on first use in ``.venv-<name>``."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / "stamp"
    wanted = "\n".join(requirements)
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"Installing {wanted} into {folder.name} (once) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements], check=True
        )
        stamp.write_text(wanted)
    return python
