"""The description for a package index: the README without links that lead nowhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
FORGE = "https://forge.example/team/project"


def build_tool() -> ModuleType:
    path = ROOT / "build_tools" / "long_description.py"
    spec = importlib.util.spec_from_file_location("long_description", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = build_tool()
PAGE = """\
[Run](docs/run.md#exit-status) it, see [`code`](a.py), [us](https://a.example)
or [below](#x).
![A gap](docs/gap.png)

```python
tables[0](1)
```
"""


def test_links_lead_to_the_files_of_the_release() -> None:
    assert TOOL.without_relative_links(PAGE, repository=f"{FORGE}/", tag="v1.2.3") == (
        f"[Run]({FORGE}/blob/v1.2.3/docs/run.md#exit-status) it, see "
        f"[`code`]({FORGE}/blob/v1.2.3/a.py), "
        "[us](https://a.example)\nor [below](#x).\n"
        f"![A gap]({FORGE}/raw/v1.2.3/docs/gap.png)\n\n"
        "```python\ntables[0](1)\n```\n"
    )


def test_without_a_repository_links_are_text_and_images_are_left_out() -> None:
    assert TOOL.without_relative_links(PAGE, repository=None, tag="v1.2.3") == (
        "Run it, see `code`, [us](https://a.example)\nor [below](#x).\n\n\n"
        "```python\ntables[0](1)\n```\n"
    )


def targets(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]*)\)", re.sub(r"(?s)```.*?```", "", text))


def test_no_link_of_the_readme_stays_relative(tmp_path: Path) -> None:
    shutil.copy2(ROOT / "README.md", tmp_path)
    declared = '[project]\nversion = "1.2.3"\n'
    (tmp_path / "pyproject.toml").write_text(declared, encoding="utf-8")
    plain = TOOL.long_description(tmp_path)
    assert all(target.startswith("https://") for target in targets(plain))
    declared += f'[project.urls]\nRepository = "{FORGE}"\n'
    (tmp_path / "pyproject.toml").write_text(declared, encoding="utf-8")
    linked = targets(TOOL.long_description(tmp_path))
    assert len(linked) == len(targets((ROOT / "README.md").read_text("utf-8"))) > 30
    for target in linked:
        place = re.sub(rf"^{FORGE}/(?:blob|raw)/v1\.2\.3/|#.*", "", target)
        assert (ROOT / place).exists(), target
