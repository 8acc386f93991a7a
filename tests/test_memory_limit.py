"""`--max-memory` holds in real bytes: the command runs under a hard limit of the system, which would end it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import topical_text

LIMIT = 700_000_000
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
from awesum.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # not that of who started it
print(int(peak.split()[1]) * 1024, file=sys.stderr)
sys.exit(code)
"""


def run(path: Path, limit: str) -> subprocess.CompletedProcess[str]:
    command = ["summarize", str(path), "--style", "extract", "--max-memory", limit, "--quiet"]
    return subprocess.run(
        [sys.executable, "-c", _LIMITED.format(limit=LIMIT), *command],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count all memory")
def test_limit_holds_in_real_bytes(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(topical_text(200, seed) for seed in range(10)))
    done = run(path, "700MB")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert int(done.stderr.splitlines()[-1]) <= LIMIT


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not count all memory")
def test_limit_that_is_too_low_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("The council met on Monday. It decided to build a bridge.")
    done = run(path, "200MB")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "is too little" in line]
    assert "Traceback" not in done.stderr
