"""The text of an MJCF model, with its parameters written back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.description import ModelFile
from steelyard.model.files.xml_document import Edit, Element, format_numbers
from steelyard.model.parameters import to_mass_com_inertia
from steelyard.model.relocation import relative_reference
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray

MAKERS_OF_BODIES = ("replicate", "attach", "composite", "flexcomp")
"""Elements from which MuJoCo generates bodies without an element of their own."""

_INERTIA_ATTRIBUTES = ("fullinertia", "axisangle", "euler", "xyaxes", "zaxis")
_REWRITERS_OF_INERTIA = ("settotalmass", "boundmass", "boundinertia", "balanceinertia")
_ASSET_FOLDERS = {"assetdir", "meshdir", "texturedir"}


@dataclass(frozen=True, eq=False)
class MjcfFile(ModelFile):
    """An MJCF model that was read, ready to be written again.

    Attributes:
        elements: The ``<body>`` of each part; parts that MuJoCo generates (replicate, attach) have none.
        parameters: The ten parameters of each part as read.
        rewritten: Whether the compiler's options change inertias that the text states.
    """

    elements: Mapping[str, Element]
    parameters: Mapping[str, FloatArray]
    rewritten: bool

    format = "MJCF"

    def with_parameters(self, changes: Mapping[str, FloatArray], path: Path) -> tuple[bytes, list[str]]:
        """Return the file's bytes with new parameters for some bodies; see `ModelFile`."""
        wanted = dict(changes)
        remarks = []
        if self.rewritten and changes:
            wanted = {**self.parameters, **wanted}
            remarks.append(
                "every body states its inertia now, because the compiler's options changed inertias: "
                f"{', '.join(_REWRITERS_OF_INERTIA)} are removed and inertiafromgeom is 'auto'"
            )
        missing = [name for name in wanted if name not in self.elements]
        if missing:
            raise ModelError(
                f"{in_words(missing)}: no element of its own to write to, because the model uses "
                f"<{'>, <'.join(MAKERS_OF_BODIES)}>; let MuJoCo expand it first (mj_saveLastXML), and load that file",
                path=self.path,
                names=missing,
            )
        edits = [
            edit for name, parameters in wanted.items() for edit in self._set_inertial(self.elements[name], parameters)
        ]
        edits += self._edit_compilers(path, remarks, restate=self.rewritten and bool(changes))
        return self.document.apply(edits, path).encoded(), remarks

    def _set_inertial(self, body: Element, parameters: FloatArray) -> list[Edit]:
        if not np.any(parameters):
            return self._state_inertial(body, {"pos": "0 0 0", "quat": None, "mass": "0", "diaginertia": "0 0 0"})
        mass, com, tensor = to_mass_com_inertia(parameters)
        moments, axes = np.linalg.eigh(tensor)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] = -axes[:, 0]
        quaternion = pin.Quaternion(np.asarray(axes))
        values: dict[str, str | None] = {
            "pos": format_numbers(com),
            "quat": format_numbers([quaternion.w, quaternion.x, quaternion.y, quaternion.z]),
            "mass": format_numbers([float(mass)]),
            "diaginertia": format_numbers(moments),
        }
        return self._state_inertial(body, values)

    def _state_inertial(self, body: Element, values: dict[str, str | None]) -> list[Edit]:
        inertial = body.find("inertial")
        if inertial is not None:
            gone = dict.fromkeys(_INERTIA_ATTRIBUTES)
            return self.document.set_attributes(inertial, {**values, **gone})
        stated = " ".join(f'{key}="{value}"' for key, value in values.items() if value is not None)
        return [self.document.insert_first(body, f"<inertial {stated}/>")]

    def _edit_compilers(self, path: Path, remarks: list[str], *, restate: bool) -> list[Edit]:
        """Return the edits of ``<compiler>``: inertias as stated, and asset folders relative to the new folder."""
        edits: list[Edit] = []
        stated: set[str] = set()
        moved = False
        for compiler in (element for element in self.document.root.walk() if element.tag == "compiler"):
            changed: dict[str, str | None] = {}
            if restate:
                changed |= dict.fromkeys(key for key in _REWRITERS_OF_INERTIA if key in compiler.attributes)
                if "inertiafromgeom" in compiler.attributes:
                    changed["inertiafromgeom"] = "auto"
            for key in compiler.attributes.keys() & _ASSET_FOLDERS:
                stated.add(key)
                reference = relative_reference(compiler.attributes[key], self.path, path)
                if reference is not None:
                    changed[key] = reference
                    moved = True
            edits += self.document.set_attributes(compiler, changed)
        assets = any("file" in element.attributes for element in self.document.root.walk())
        here = relative_reference(".", self.path, path)
        if assets and here is not None and "assetdir" not in stated:
            unstated = {key: here for key in ("meshdir", "texturedir") if key not in stated}
            if unstated:
                text = "<compiler " + " ".join(f'{key}="{value}"' for key, value in unstated.items()) + "/>"
                edits.append(self.document.insert_first(self.document.root, text))
                moved = True
        if moved:
            remarks.append("the asset folders of <compiler> now lead from the new folder to the same files")
        return edits
