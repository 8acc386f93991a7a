"""`make test-gpu`: every test that needs GPUs, and one file with the machine, the versions and the outcome.

python -m tests.gpu gpu-report.txt
"""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("torch", "transformers", "accelerate", "safetensors", "ray", "pyarrow")


def machine() -> list[str]:
    """What the tests ran on."""
    import torch

    from awesum.version import __version__

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    lines = [f"awesum {__version__}, Python {platform.python_version()}, {platform.platform()}"]
    lines += [f"{name} {version(name)}" for name in LIBRARIES]
    lines += [f"CUDA {torch.version.cuda}, {count} devices"]
    for number in range(count):
        known = torch.cuda.get_device_properties(number)
        lines.append(f"device {number}: {known.name}, {known.total_memory / 1e9:.1f} GB, {known.major}.{known.minor}")
    return lines


def main(path: Path) -> int:
    """Run the tests, show and write what they print."""
    import torch

    head = machine()
    if not torch.cuda.is_available():
        path.write_text("\n".join([*head, "no test was run: there is no CUDA device"]) + "\n", encoding="utf-8")
        print(f"there is no CUDA device: nothing was tested; {path} says what is there", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-v", "-rA", "--durations=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    path.write_text("\n".join([*head, "", *lines, "", f"exit code {running.returncode}"]) + "\n", encoding="utf-8")
    print(f"the report is in {path}: please send it back")
    return running.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "gpu-report.txt")))
