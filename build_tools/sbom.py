"""The list of what a wheel contains and needs, as CycloneDX JSON (PEP 770).

A wheel contains stepscope and, in its page, packages of npm. It needs packages of
Python, which pip installs beside it.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from web_page import ROOT, bundled_packages

#: Name of the file in a wheel's `.dist-info` folder.
PLACE = "sboms/stepscope.cdx.json"


def sbom() -> str:
    """Return the list, equal for equal sources."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    name, version = project["name"], project["version"]
    own = f"pkg:pypi/{name}@{version}"
    bundled = [
        _component(package, f"pkg:npm/{package}@{of['version']}", **of)
        for package, of in bundled_packages().items()
    ]
    needed = [
        _component(package, f"pkg:pypi/{package}", description=f"needed: {requirement}")
        for requirement in project["dependencies"]
        for package in re.findall(r"^[\w-]+", requirement)
    ]
    text = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                **_component(name, own, version=version, license=project["license"]),
                "type": "application",
            }
        },
        "components": [*bundled, *needed],
        "dependencies": [
            {"ref": own, "dependsOn": [one["bom-ref"] for one in (*bundled, *needed)]}
        ],
    }
    return json.dumps(text, indent=1) + "\n"


def _component(name: str, purl: str, **known: str) -> dict[str, Any]:
    licence = known.pop("license", None)
    licences = [{"license": {"id": licence}}] if licence else []
    component = {"type": "library", "name": name, "purl": purl, "bom-ref": purl}
    return {**component, **known, **({"licenses": licences} if licences else {})}
