"""Fetch axe-core from the npm registry, at one version and with one hash: python -m tests.browser.axe FILE"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

VERSION = "4.14.0"
SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="


def fetch(target: Path) -> None:
    """Write `axe.min.js`, unless what the registry sends is something else."""
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    address = f"{registry}/axe-core/-/axe-core-{VERSION}.tgz"
    with urllib.request.urlopen(address, timeout=120) as answer:
        data = answer.read()
    found = base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != SHA512:
        sys.exit(f"{address} has the hash {found}, not {SHA512}: it is not used")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(script.read())


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
