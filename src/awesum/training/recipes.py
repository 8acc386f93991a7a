"""Recipes: files of training settings (YAML). Those that come with the package have names such as `govreport/awesome`.

The first line of a recipe is a comment that describes it; the next ones are the commands to run it.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from awesum.errors import AwesumError

FOLDER = Path(__file__).parents[1] / "recipes"


def names() -> list[str]:
    """The names of the packaged recipes."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.yaml"))


def find(recipe: str | Path) -> Path:
    """The file of a recipe: of a packaged one by its name, or one of the user's by its path."""
    if str(recipe) in names():
        return FOLDER / f"{recipe}.yaml"
    if Path(recipe).exists() or Path(recipe).suffix in (".yaml", ".yml"):
        return Path(recipe)
    near = get_close_matches(str(recipe), names(), 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
    raise AwesumError(f"there is no recipe {str(recipe)!r}: {hint} A path to a YAML file works too")


def text(recipe: str | Path) -> str:
    """The content of a recipe."""
    path = find(recipe)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise AwesumError(f"cannot read {path} ({reason}): give a recipe, or a YAML file of settings") from error


def description(recipe: str | Path) -> str:
    """The first line of a recipe."""
    return text(recipe).partition("\n")[0].lstrip("# ")


def read(recipe: str | Path) -> dict[str, Any]:
    """The settings in a recipe, not checked."""
    import yaml  # type: ignore[import-untyped]

    try:
        loaded = yaml.safe_load(text(recipe))
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise AwesumError(f"{recipe} is not YAML ({reason}): write `name: value` lines") from error
    if not isinstance(loaded, dict):
        raise AwesumError(f"{recipe} has no settings: write `name: value` lines")
    return loaded
