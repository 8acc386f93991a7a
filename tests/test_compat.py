"""Private names of libraries are used in `awesum.compat` and nowhere else.

Three ways to depend on one are looked for: importing it, accessing it as an attribute, and overriding it in a subclass.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Trainer

import awesum
from awesum import compat
from awesum.compat import has_fast_bfloat16  # the other tests run in float32, see conftest.py

ROOT = Path(awesum.__file__).parent
HOME = "compat.py"
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Documented in spite of their underscore: those of named tuples, and `os._exit`."""
ALLOWED: set[tuple[str, str]] = set()
"""Exceptions: (file, name). Do not add to it."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


class Uses(ast.NodeVisitor):
    """The private names that a module defines, those it accesses, and those of its classes."""

    def __init__(self) -> None:
        self.defined: set[str] = set()
        self.accessed: set[str] = set()
        self.imported: set[str] = set()
        self.members: list[tuple[str, str]] = []
        """Class and private name, for each one in the body of a class at the top level."""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name, "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if not node.level:
                self._import(node.module or "", alias.name)

    def _import(self, module: str, name: str) -> None:
        if module.split(".")[0] not in ("awesum", "__future__"):
            self.imported.update(part for part in (*module.split("."), name) if is_private(part))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if is_private(node.attr):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            (self.defined if is_own and isinstance(node.ctx, ast.Store) else self.accessed).add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`getattr(something, "_name")` and its like."""
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr", "setattr", "delattr"):
            names = [each.value for each in node.args[1:2] if isinstance(each, ast.Constant)]
            self.accessed.update(name for name in names if isinstance(name, str) and is_private(name))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Annotations that are strings."""
        if isinstance(node.value, str) and "._" in node.value and " " not in node.value:
            with_name = [part for part in node.value.replace("[", ".").split(".") if is_private(part)]
            if all(part.replace("]", "").isidentifier() for part in node.value.replace("[", ".").split(".")):
                self.accessed.update(with_name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.defined.update({node.name} if is_private(node.name) else ())
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        names: list[str] = [node.name]
        for each in node.body:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.append(each.name)
            targets = (
                each.targets
                if isinstance(each, ast.Assign)
                else [each.target]
                if isinstance(each, ast.AnnAssign)
                else []
            )
            names += [target.id for target in targets if isinstance(target, ast.Name)]
        self.defined.update(filter(is_private, names))
        self.members += [(node.name, name) for name in names[1:] if is_private(name)]
        self.generic_visit(node)

    def visit_Module(self, node: ast.Module) -> None:
        for each in node.body:
            targets = (
                each.targets
                if isinstance(each, ast.Assign)
                else [each.target]
                if isinstance(each, ast.AnnAssign)
                else []
            )
            self.defined.update(t.id for t in targets if isinstance(t, ast.Name) and is_private(t.id))
        self.generic_visit(node)


def uses_of(source: str) -> Uses:
    uses = Uses()
    uses.visit(ast.parse(source))
    return uses


def modules() -> Iterator[tuple[str, Uses]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), uses_of(path.read_text(encoding="utf-8"))


def overridden(file: str, members: list[tuple[str, str]]) -> Iterator[str]:
    """The private names of a module's classes that a base class outside awesum has as well."""
    if not members:
        return
    name = ".".join(("awesum", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
    module = import_module(name)
    for owner, member in members:
        bases: tuple[type, ...] = getattr(getattr(module, owner, None), "__mro__", ())
        if any(member in vars(base) for base in bases if not base.__module__.startswith("awesum")):
            yield member


def found() -> set[tuple[str, str]]:
    every = dict(modules())
    ours = set().union(*(uses.defined for file, uses in every.items() if file != HOME))
    hooks = {file: set(overridden(file, uses.members)) for file, uses in every.items() if file != HOME}
    ours -= set().union(*hooks.values())
    return {
        (file, name)
        for file, uses in every.items()
        if file != HOME
        for name in (uses.imported | (uses.accessed - ours) | hooks[file]) - PUBLIC
    }


def test_private_names_of_libraries_are_in_one_place() -> None:
    """A name listed here belongs into `awesum.compat`, behind a function or a mixin with a public name."""
    assert found() - ALLOWED == set()


def test_nothing_is_allowed_that_is_not_there() -> None:
    assert ALLOWED - found() == set()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import argparse\nx: argparse._SubParsersAction", "_SubParsersAction"),
        ("x: 'argparse._SubParsersAction[argparse.ArgumentParser]'", "_SubParsersAction"),
        ("model.config._attn_implementation", "_attn_implementation"),
        ("torch.cpu._is_amx_tile_supported()", "_is_amx_tile_supported"),
        ("super()._save(folder)", "_save"),
        ("self._signature_columns", "_signature_columns"),
        ("getattr(model, '_is_stateful', False)", "_is_stateful"),
    ],
)
def test_check_sees_what_is_accessed(source: str, name: str) -> None:
    assert uses_of(source).accessed == {name}


@pytest.mark.parametrize("source", ["from numpy import _core", "import numpy._core", "from numpy._core import array"])
def test_check_sees_what_is_imported(source: str) -> None:
    assert uses_of(source).imported == {"_core"}


@pytest.mark.parametrize(
    "source",
    [
        "from awesum.cli import _add",
        "from __future__ import annotations",
        "for _ in range(3): pass",
        "x.__class__",
        "'a sentence about x._y, with words'",
    ],
)
def test_check_leaves_the_rest_alone(source: str) -> None:
    uses = uses_of(source)
    assert not uses.accessed
    assert not uses.imported


def test_check_knows_what_is_ours() -> None:
    source = """
_LIMIT = 3
def _help(): ...
class _Rows:
    _kept: int = 0
    def __init__(self): self._size = 1
    def _grow(self): ...
"""
    assert uses_of(source).defined == {"_LIMIT", "_help", "_Rows", "_kept", "_size", "_grow"}


def test_check_sees_overridden_hooks() -> None:
    uses = dict(modules())[HOME]
    assert set(overridden(HOME, uses.members)) == set()  # mixins: they have no base in a library
    trainer = import_module("awesum.training.trainer").AwesomeTrainer
    assert "_save" in vars(Trainer)
    trainer._save_, trainer._inner_training_loop = None, None
    try:
        members = [("AwesomeTrainer", "_save_"), ("AwesomeTrainer", "_inner_training_loop")]
        assert list(overridden("training/trainer.py", members)) == ["_inner_training_loop"]
    finally:
        del trainer._save_, trainer._inner_training_loop


# ----------------------------------------------------------------------------------------------------- what is there


def test_importing_it_imports_no_library() -> None:
    code = "import sys, awesum.compat; print({'torch', 'transformers', 'numpy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


@pytest.mark.parametrize("has", [set(), {"_is_amx_tile_supported"}, {"_is_avx512_bf16_supported"}], ids=str)
def test_bfloat16_is_fast_with_either_instruction_set(has: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        assert hasattr(torch.cpu, name)
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in has)
    assert has_fast_bfloat16() is bool(has)


def test_what_a_model_can_do() -> None:
    from transformers import LlamaForCausalLM, MambaConfig, MambaForCausalLM

    sizes: dict[str, Any] = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1}
    llama = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=8, num_attention_heads=2))
    mamba = MambaForCausalLM(MambaConfig(**sizes, state_size=4))
    assert compat.takes_attention_backend(llama)
    assert not compat.takes_attention_backend(mamba)
    assert not compat.is_stateful(llama)
    assert compat.is_stateful(mamba)
    llama.set_attn_implementation("eager")
    assert compat.attention_implementation(llama.config) == "eager"


def test_architecture_is_what_the_output_depends_on() -> None:
    config = LlamaConfig(hidden_size=8, num_attention_heads=2, rms_norm_eps=0.5)
    found = compat.architecture_of(config)
    assert (found["hidden_size"], found["rms_norm_eps"]) == (8, 0.5)
    config.name_or_path, config.dtype, config.transformers_version = "another", torch.float16, "0"
    assert compat.architecture_of(config) == found
