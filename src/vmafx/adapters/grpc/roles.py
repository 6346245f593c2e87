"""Which roles may make which calls of the controller (ADR 0026)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from vmafx.domain.callers import Role

__all__ = ["CONTROLLER_ROLES"]

_READ: Final = (Role.READER, Role.WRITER, Role.ADMIN)
_WRITE: Final = (Role.WRITER, Role.ADMIN)
_NODE: Final = (Role.NODE,)
_ANY: Final = tuple(Role)

CONTROLLER_ROLES: Final[Mapping[str, Collection[Role]]] = {
    "/vmafx.controller.v1.VmafxController/SubmitJob": _WRITE,
    "/vmafx.controller.v1.VmafxController/GetJob": _READ,
    "/vmafx.controller.v1.VmafxController/CancelJob": _WRITE,
    "/vmafx.controller.v1.VmafxController/StreamJobs": _READ,
    "/vmafx.controller.v1.VmafxController/RegisterNode": _NODE,
    "/vmafx.controller.v1.VmafxController/Heartbeat": _NODE,
    "/vmafx.controller.v1.VmafxController/PullWork": _NODE,
    "/vmafx.controller.v1.VmafxController/ReportResult": _NODE,
    "/grpc.health.v1.Health/Check": _ANY,
    "/grpc.health.v1.Health/Watch": _ANY,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _ANY,
}
"""The roles by the method's path: every method that the controller serves, and no other."""
