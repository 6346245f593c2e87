"""The public API is what `__all__` says: complete, sorted, documented and cheap to import (ADR 0001)."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import vmafx
from vmafx.domain import errors

ROOT = Path(__file__).parents[2]
NAMES = [name for name in vmafx.__all__ if name != "__version__"]


def test_no_name_is_there_twice_and_dir_lists_them():
    assert len(set(vmafx.__all__)) == len(vmafx.__all__)
    assert dir(vmafx) == sorted(vmafx.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_the_very_thing_of_its_home_and_documented(name):
    thing = getattr(vmafx, name)
    home = importlib.import_module(vmafx._HOME_OF[name])
    assert thing is getattr(home, name)
    assert name in home.__all__
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing)


def test_all_names_have_a_home_and_no_home_is_without_a_name():
    assert sorted(vmafx._HOME_OF) == sorted(NAMES)


def test_every_error_is_public():
    assert set(errors.__all__) <= set(vmafx.__all__)


def test_a_name_that_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'CliScorer'"):
        _ = vmafx.CliScorer
    with pytest.raises(ImportError):
        exec("from vmafx import CliScorer")


def test_star_import_brings_the_public_names():
    names: dict[str, object] = {}
    exec("from vmafx import *", names)
    assert set(names) - {"__builtins__"} == set(vmafx.__all__)


def test_type_checkers_see_the_same_names():
    source = Path(vmafx.__file__).read_text(encoding="utf-8")
    block = source.split("if TYPE_CHECKING:\n")[1].split("\n\n")[0]
    seen = sorted(line.rpartition(" as ")[2] for line in block.splitlines())
    assert seen == sorted(NAMES)
    for line in block.splitlines():
        home, _, name = line.strip().removeprefix("from ").partition(" import ")
        assert vmafx._HOME_OF[name.partition(" as ")[0]] == home


def test_the_version_is_that_of_the_installed_package():
    assert vmafx.__version__ == importlib.metadata.version("vmafx")


def loaded_by(code):
    """The modules that are loaded after `code`, but not by Python itself."""
    report = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_of_it_but_its_version():
    ours = {name for name in loaded_by("import vmafx") if name.startswith("vmafx")}
    assert ours == {"vmafx", "vmafx.domain", "vmafx.domain.version"}


def test_importing_the_package_loads_no_third_party():
    loaded = {name.partition(".")[0] for name in loaded_by("import vmafx")}
    assert loaded - {"vmafx"} <= set(sys.stdlib_module_names)
    assert not loaded & {"asyncio", "logging", "subprocess", "socket"}


def test_scoring_loads_none_of_the_heavy_dependencies():
    code = "from vmafx.app.cli.main import run\nrun(['score', 'no', 'no'], {}, platform=sys.platform)"
    loaded = {name.partition(".")[0] for name in loaded_by(code)}
    assert "click" in loaded
    assert not loaded & {
        "grpc",
        "google",
        "pydantic",
        "dependency_injector",
        "opentelemetry",
        "fsspec",
        "rich",
    }
    assert loaded - {"vmafx", "click"} <= set(sys.stdlib_module_names)


def test_the_domain_and_the_ports_load_no_third_party():
    modules = [
        ".".join(path.relative_to(Path(vmafx.__file__).parents[1]).with_suffix("").parts)
        for layer in ("domain", "ports")
        for path in Path(vmafx.__file__).parent.joinpath(layer).glob("*.py")
    ]
    loaded = {name.partition(".")[0] for name in loaded_by("".join(f"import {name}\n" for name in modules))}
    assert loaded - {"vmafx"} <= set(sys.stdlib_module_names)


def test_the_page_of_the_api_is_up_to_date():
    tool = runpy.run_path(str(ROOT / "tools" / "api_page.py"))
    written = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == tool["page"](), "run tools/api_page.py"
    for line in written.splitlines():
        assert "NewType creates" not in line
        if line.startswith("| `"):
            assert line.endswith(". |"), line
