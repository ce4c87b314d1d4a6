"""The steps of deploy/Dockerfile, run without Docker in a clean folder that stands for the image."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.patience import SECONDS

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy/Dockerfile"
OWN = ("COVERAGE", "KEYHOLE", "NUMBA", "PYTHON", "VIRTUAL")  # Variables that an image does not inherit.


def read_lines() -> list[str]:
    """Return the instructions, each on one line."""
    text = FILE.read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def is_let_in(path: str) -> bool:
    """Return whether Docker sees a file of the source: the last pattern that matches decides."""
    seen = True
    for pattern in Path(f"{FILE}.dockerignore").read_text().split():
        body = re.escape(pattern.lstrip("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{body}(/.*)?", path):
            seen = pattern.startswith("!")
    return seen


def find_needed(name: str, extras: set[str]) -> set[str]:
    """Return the installed distributions that one needs with these extras, and what those need."""
    found = set[str]()
    for line in distribution(name).requires or []:
        need = Requirement(line)
        asked = need.marker is None or any(need.marker.evaluate({"extra": e}) for e in extras | {""})
        if asked and need.name not in found:
            found |= {need.name} | find_needed(need.name, need.extras)
    return found


class Image:
    """A folder with what the image would have, and what its commands run with.

    What differs from an image:

    - The folder stands for ``/``: ``/opt``, ``/data``, ``/source`` and ``/tmp`` in a command are in it,
      and ``groupadd`` and ``useradd`` write to an ``/etc`` in it. Both stages share it.
    - Around it are this machine's Python and programs, not those of ``python:3.12-slim``.
    - The packages that the image downloads are there already, as links to those that the tests run
      with; nothing else is. pip itself decides whether they suffice, and downloads what is missing.
    - The user may also read what only root may: this machine's Python can be anywhere.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.folder, self.user = root, root, "root"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(OWN)
        } | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.commands: dict[str, list[str]] = {}
        root.chmod(0o755)
        for name in ("etc", "tmp"):
            (root / name).mkdir()
        (root / "tmp").chmod(0o1777)
        (root / "etc/passwd").touch()
        for line in read_lines():
            name, _, rest = line.partition(" ")
            getattr(self, f"_{name.lower()}")(rest.strip())

    def place(self, text: str) -> str:
        """Return a text with the image's folders in ours."""
        return re.sub(r"(?<!\w)/(?=(?:opt|data|source|tmp)\b)", f"{self.root}/", text)

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command as the image's user, in its folder, with its variables and no capability."""
        left = "-all,+dac_read_search"
        (entry,) = (line for line in self._users() if line[0] == self.user)
        became = [f"--reuid={entry[2]}", f"--regid={entry[3]}", "--clear-groups", "--no-new-privs"]
        limits = [f"--{caps}={left}" for caps in ("inh-caps", "ambient-caps", "bounding-set")]
        return subprocess.Popen(  # noqa: S603
            ["setpriv", *became, *limits, *command],  # noqa: S607
            cwd=self.folder, env=self.environment | {"HOME": entry[5]}, text=True, **options,
        )  # fmt: skip

    def run(self, *command: str) -> tuple[int, str]:
        """Run a command as ``docker exec`` would; return its exit code and what it printed."""
        process = self.start([*command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        said, _ = process.communicate(timeout=SECONDS)
        return process.returncode, said

    @property
    def uid(self) -> int:
        """The number of the image's user."""
        return next(int(line[2]) for line in self._users() if line[0] == self.user)

    def _users(self) -> list[list[str]]:
        return [line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()]

    def _from(self, _rest: str) -> None:
        self.folder = self.root

    def _workdir(self, rest: str) -> None:
        self.folder = Path(self.place(rest))
        self.folder.mkdir(exist_ok=True)

    def _copy(self, rest: str) -> None:
        if rest.startswith("--from=build "):
            source, target = rest.split()[1:]
            assert source == target
            assert Path(self.place(target)).is_dir()
            return
        *sources, target = rest.split()
        for source in sources:
            here = ROOT / source
            files = [here] if here.is_file() else [path for path in here.rglob("*") if path.is_file()]
            seen = [path for path in files if is_let_in(str(path.relative_to(ROOT)))]
            assert seen, f"Docker does not see {source}"
            for path in seen:
                new = self.folder / target / path.relative_to(ROOT if here.is_file() else here)
                new.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, new)

    def _run(self, rest: str) -> None:
        for extras in re.findall(r"'\.\[([\w,]+)\]'", rest):
            self._link(set(extras.split(",")))
        command = re.sub(r"\b(groupadd|useradd)\b", rf"\1 --prefix {self.root}", self.place(rest))
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", command], cwd=self.folder, env=self.environment, timeout=5 * SECONDS,
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def _link(self, extras: set[str]) -> None:
        """Put the packages that these extras need where the environment is going to be."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = self.root / "opt/keyhole/lib" / version / "site-packages"
        packages.mkdir(parents=True)
        for name in find_needed("keyhole-conformal", extras):
            found = distribution(name)
            for top in {path.parts[0] for path in found.files or []} - {"..", "__pycache__"}:
                if not (packages / top).exists():
                    (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())

    def _env(self, rest: str) -> None:
        for part in shlex.split(self.place(rest)):
            name, _, value = part.partition("=")
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])

    def _user(self, rest: str) -> None:
        self.user = rest

    def _healthcheck(self, rest: str) -> None:
        self.commands["HEALTHCHECK"] = json.loads(rest.partition("CMD ")[2])

    def _entrypoint(self, rest: str) -> None:
        self.commands["ENTRYPOINT"] = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.commands["CMD"] = json.loads(rest)

    def _volume(self, rest: str) -> None:
        assert Path(self.place(rest)).is_dir()

    def _expose(self, rest: str) -> None:
        self.port = int(rest)
