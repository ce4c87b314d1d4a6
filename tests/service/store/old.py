"""The file that Keyhole 0.1 wrote."""

import gzip
from pathlib import Path

FILE = Path(__file__).parent / "keyhole-0.1.db.gz"


def unpack_file(folder: Path) -> Path:
    """Put the file into a folder, as 0.1 left it; return where it is."""
    path = folder / "keyhole.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    return path
