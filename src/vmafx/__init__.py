"""Distributed VMAF scoring: a library first, and the programs made from it.

The names in `__all__` are the public API; nothing else is. They load on first use, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

import importlib

from vmafx.domain.version import __version__

TYPE_CHECKING = False  # true for type checkers, which know the name; typing alone would double the import
if TYPE_CHECKING:
    from vmafx.adapters.clock.system import SystemClock as SystemClock
    from vmafx.adapters.fakes.clock import VirtualClock as VirtualClock
    from vmafx.adapters.fakes.clock import VirtualTimeError as VirtualTimeError
    from vmafx.adapters.fakes.controller import ControllerMode as ControllerMode
    from vmafx.adapters.fakes.controller import FakeController as FakeController
    from vmafx.adapters.fakes.controller_faults import Delay as Delay
    from vmafx.adapters.fakes.controller_faults import Fail as Fail
    from vmafx.adapters.fakes.controller_faults import Hang as Hang
    from vmafx.adapters.fakes.controller_faults import LoseAnswer as LoseAnswer
    from vmafx.adapters.fakes.controller_faults import SeededFaults as SeededFaults
    from vmafx.adapters.fakes.controller_faults import Substitute as Substitute
    from vmafx.adapters.fakes.loop import VirtualTimeLoop as VirtualTimeLoop
    from vmafx.adapters.fakes.loop import run_virtual as run_virtual
    from vmafx.adapters.fakes.scorer import EndedRun as EndedRun
    from vmafx.adapters.fakes.scorer import FakeRun as FakeRun
    from vmafx.adapters.fakes.scorer import FakeScorer as FakeScorer
    from vmafx.adapters.fakes.sources import FakeSource as FakeSource
    from vmafx.adapters.fakes.sources import FakeSources as FakeSources
    from vmafx.adapters.fakes.telemetry import RecordedEvent as RecordedEvent
    from vmafx.adapters.fakes.telemetry import RecordedSpan as RecordedSpan
    from vmafx.adapters.fakes.telemetry import RecordingTelemetry as RecordingTelemetry
    from vmafx.adapters.sources.by_kind import SourcesByKind as SourcesByKind
    from vmafx.adapters.sources.local import LocalSources as LocalSources
    from vmafx.adapters.store.memory import MemoryStore as MemoryStore
    from vmafx.adapters.store.sqlite import SqliteStore as SqliteStore
    from vmafx.adapters.telemetry.embedded import LoggingTelemetry as LoggingTelemetry
    from vmafx.adapters.telemetry.joined import JoinedTelemetry as JoinedTelemetry
    from vmafx.adapters.telemetry.scope import ScopeFilter as ScopeFilter
    from vmafx.adapters.telemetry.traces import TracingTelemetry as TracingTelemetry
    from vmafx.app.container.controller import ControllerPorts as ControllerPorts
    from vmafx.app.container.controller import ControllerStore as ControllerStore
    from vmafx.app.container.controller import open_reference_controller as open_reference_controller
    from vmafx.app.container.node import NodePorts as NodePorts
    from vmafx.app.container.node import open_node as open_node
    from vmafx.app.container.score import open_scorer as open_scorer
    from vmafx.app.controller.controller import ReferenceController as ReferenceController
    from vmafx.app.node.node import Node as Node
    from vmafx.app.node.node import NodeState as NodeState
    from vmafx.app.node.policy import NodePolicy as NodePolicy
    from vmafx.app.settings.auth import AuthSettings as AuthSettings
    from vmafx.app.settings.controller import ControllerGrpcSettings as ControllerGrpcSettings
    from vmafx.app.settings.controller import ControllerHttpSettings as ControllerHttpSettings
    from vmafx.app.settings.controller import ControllerSettings as ControllerSettings
    from vmafx.app.settings.controller_client import ControllerClientSettings as ControllerClientSettings
    from vmafx.app.settings.node import NodeSettings as NodeSettings
    from vmafx.app.settings.scorer import ScorerSettings as ScorerSettings
    from vmafx.app.settings.store import StoreSettings as StoreSettings
    from vmafx.domain.address import HostPort as HostPort
    from vmafx.domain.backoff import BackoffPolicy as BackoffPolicy
    from vmafx.domain.callers import Principal as Principal
    from vmafx.domain.callers import Role as Role
    from vmafx.domain.errors import BackendMismatchError as BackendMismatchError
    from vmafx.domain.errors import ClipError as ClipError
    from vmafx.domain.errors import ConfigurationError as ConfigurationError
    from vmafx.domain.errors import ControllerError as ControllerError
    from vmafx.domain.errors import ForeignJobError as ForeignJobError
    from vmafx.domain.errors import IllegalTransitionError as IllegalTransitionError
    from vmafx.domain.errors import JobNotFoundError as JobNotFoundError
    from vmafx.domain.errors import ModelError as ModelError
    from vmafx.domain.errors import NotFiniteError as NotFiniteError
    from vmafx.domain.errors import OutsideRootsError as OutsideRootsError
    from vmafx.domain.errors import QueueFullError as QueueFullError
    from vmafx.domain.errors import ReportError as ReportError
    from vmafx.domain.errors import RoleRequiredError as RoleRequiredError
    from vmafx.domain.errors import ScorerError as ScorerError
    from vmafx.domain.errors import ScorerUnavailableError as ScorerUnavailableError
    from vmafx.domain.errors import ScoreTimeoutError as ScoreTimeoutError
    from vmafx.domain.errors import SessionNotFoundError as SessionNotFoundError
    from vmafx.domain.errors import SourceError as SourceError
    from vmafx.domain.errors import SourceSyntaxError as SourceSyntaxError
    from vmafx.domain.errors import SpoolError as SpoolError
    from vmafx.domain.errors import StoreError as StoreError
    from vmafx.domain.errors import StoreUnavailableError as StoreUnavailableError
    from vmafx.domain.errors import SubmissionConflictError as SubmissionConflictError
    from vmafx.domain.errors import TokenError as TokenError
    from vmafx.domain.errors import VmafxError as VmafxError
    from vmafx.domain.job import Job as Job
    from vmafx.domain.job import JobId as JobId
    from vmafx.domain.job import JobResult as JobResult
    from vmafx.domain.job import JobSpec as JobSpec
    from vmafx.domain.job import JobStatus as JobStatus
    from vmafx.domain.job import NodeName as NodeName
    from vmafx.domain.job import SessionId as SessionId
    from vmafx.domain.job import TenantId as TenantId
    from vmafx.domain.lease import Heartbeat as Heartbeat
    from vmafx.domain.lease import LeasePolicy as LeasePolicy
    from vmafx.domain.nodesession import Capability as Capability
    from vmafx.domain.nodesession import InstanceId as InstanceId
    from vmafx.domain.report import Partial as Partial
    from vmafx.domain.report import Report as Report
    from vmafx.domain.retry import Call as Call
    from vmafx.domain.retry import StatusCode as StatusCode
    from vmafx.domain.roots import ResolvedSource as ResolvedSource
    from vmafx.domain.roots import RootTemplates as RootTemplates
    from vmafx.domain.roots import ScoringRoots as ScoringRoots
    from vmafx.domain.scoring import Backend as Backend
    from vmafx.domain.scoring import Clip as Clip
    from vmafx.domain.scoring import ClipDescriptor as ClipDescriptor
    from vmafx.domain.scoring import ClipFile as ClipFile
    from vmafx.domain.scoring import Failure as Failure
    from vmafx.domain.scoring import FrameScore as FrameScore
    from vmafx.domain.scoring import LengthMismatch as LengthMismatch
    from vmafx.domain.scoring import Retry as Retry
    from vmafx.domain.scoring import ScoreRequest as ScoreRequest
    from vmafx.domain.scoring import ScoreResult as ScoreResult
    from vmafx.domain.session_policy import SessionPolicy as SessionPolicy
    from vmafx.domain.session_state import Session as Session
    from vmafx.domain.source import SourceKind as SourceKind
    from vmafx.domain.source import SourceRef as SourceRef
    from vmafx.ports.clock import Clock as Clock
    from vmafx.ports.controller import Assignment as Assignment
    from vmafx.ports.controller import Controller as Controller
    from vmafx.ports.controller import Desk as Desk
    from vmafx.ports.controller import HeartbeatAnswer as HeartbeatAnswer
    from vmafx.ports.controller import NodeIdentity as NodeIdentity
    from vmafx.ports.controller import Registration as Registration
    from vmafx.ports.jobs import CancelAnswer as CancelAnswer
    from vmafx.ports.jobs import Jobs as Jobs
    from vmafx.ports.jobs import JobView as JobView
    from vmafx.ports.listener import Listener as Listener
    from vmafx.ports.scorer import Progress as Progress
    from vmafx.ports.scorer import Scorer as Scorer
    from vmafx.ports.sources import SourceStore as SourceStore
    from vmafx.ports.telemetry import Level as Level
    from vmafx.ports.telemetry import Telemetry as Telemetry
    from vmafx.ports.tokens import TokenSource as TokenSource
    from vmafx.ports.tokens import TokenVerifier as TokenVerifier

__all__ = [
    "Assignment",
    "AuthSettings",
    "Backend",
    "BackendMismatchError",
    "BackoffPolicy",
    "Call",
    "CancelAnswer",
    "Capability",
    "Clip",
    "ClipDescriptor",
    "ClipError",
    "ClipFile",
    "Clock",
    "ConfigurationError",
    "Controller",
    "ControllerClientSettings",
    "ControllerError",
    "ControllerGrpcSettings",
    "ControllerHttpSettings",
    "ControllerMode",
    "ControllerPorts",
    "ControllerSettings",
    "ControllerStore",
    "Delay",
    "Desk",
    "EndedRun",
    "Fail",
    "Failure",
    "FakeController",
    "FakeRun",
    "FakeScorer",
    "FakeSource",
    "FakeSources",
    "ForeignJobError",
    "FrameScore",
    "Hang",
    "Heartbeat",
    "HeartbeatAnswer",
    "HostPort",
    "IllegalTransitionError",
    "InstanceId",
    "Job",
    "JobId",
    "JobNotFoundError",
    "JobResult",
    "JobSpec",
    "JobStatus",
    "JobView",
    "Jobs",
    "JoinedTelemetry",
    "LeasePolicy",
    "LengthMismatch",
    "Level",
    "Listener",
    "LocalSources",
    "LoggingTelemetry",
    "LoseAnswer",
    "MemoryStore",
    "ModelError",
    "Node",
    "NodeIdentity",
    "NodeName",
    "NodePolicy",
    "NodePorts",
    "NodeSettings",
    "NodeState",
    "NotFiniteError",
    "OutsideRootsError",
    "Partial",
    "Principal",
    "Progress",
    "QueueFullError",
    "RecordedEvent",
    "RecordedSpan",
    "RecordingTelemetry",
    "ReferenceController",
    "Registration",
    "Report",
    "ReportError",
    "ResolvedSource",
    "Retry",
    "Role",
    "RoleRequiredError",
    "RootTemplates",
    "ScopeFilter",
    "ScoreRequest",
    "ScoreResult",
    "ScoreTimeoutError",
    "Scorer",
    "ScorerError",
    "ScorerSettings",
    "ScorerUnavailableError",
    "ScoringRoots",
    "SeededFaults",
    "Session",
    "SessionId",
    "SessionNotFoundError",
    "SessionPolicy",
    "SourceError",
    "SourceKind",
    "SourceRef",
    "SourceStore",
    "SourceSyntaxError",
    "SourcesByKind",
    "SpoolError",
    "SqliteStore",
    "StatusCode",
    "StoreError",
    "StoreSettings",
    "StoreUnavailableError",
    "SubmissionConflictError",
    "Substitute",
    "SystemClock",
    "Telemetry",
    "TenantId",
    "TokenError",
    "TokenSource",
    "TokenVerifier",
    "TracingTelemetry",
    "VirtualClock",
    "VirtualTimeError",
    "VirtualTimeLoop",
    "VmafxError",
    "__version__",
    "open_node",
    "open_reference_controller",
    "open_scorer",
    "run_virtual",
]

_HOMES = {
    "vmafx.adapters.clock.system": ("SystemClock",),
    "vmafx.adapters.fakes.clock": (
        "VirtualClock",
        "VirtualTimeError",
    ),
    "vmafx.adapters.fakes.controller": (
        "ControllerMode",
        "FakeController",
    ),
    "vmafx.adapters.fakes.controller_faults": (
        "Delay",
        "Fail",
        "Hang",
        "LoseAnswer",
        "SeededFaults",
        "Substitute",
    ),
    "vmafx.adapters.fakes.loop": (
        "VirtualTimeLoop",
        "run_virtual",
    ),
    "vmafx.adapters.fakes.scorer": (
        "EndedRun",
        "FakeRun",
        "FakeScorer",
    ),
    "vmafx.adapters.fakes.sources": (
        "FakeSource",
        "FakeSources",
    ),
    "vmafx.adapters.fakes.telemetry": (
        "RecordedEvent",
        "RecordedSpan",
        "RecordingTelemetry",
    ),
    "vmafx.adapters.sources.by_kind": ("SourcesByKind",),
    "vmafx.adapters.sources.local": ("LocalSources",),
    "vmafx.adapters.store.memory": ("MemoryStore",),
    "vmafx.adapters.store.sqlite": ("SqliteStore",),
    "vmafx.adapters.telemetry.embedded": ("LoggingTelemetry",),
    "vmafx.adapters.telemetry.joined": ("JoinedTelemetry",),
    "vmafx.adapters.telemetry.scope": ("ScopeFilter",),
    "vmafx.adapters.telemetry.traces": ("TracingTelemetry",),
    "vmafx.app.container.controller": (
        "ControllerPorts",
        "ControllerStore",
        "open_reference_controller",
    ),
    "vmafx.app.container.node": (
        "NodePorts",
        "open_node",
    ),
    "vmafx.app.container.score": ("open_scorer",),
    "vmafx.app.controller.controller": ("ReferenceController",),
    "vmafx.app.node.node": (
        "Node",
        "NodeState",
    ),
    "vmafx.app.node.policy": ("NodePolicy",),
    "vmafx.app.settings.auth": ("AuthSettings",),
    "vmafx.app.settings.controller": (
        "ControllerGrpcSettings",
        "ControllerHttpSettings",
        "ControllerSettings",
    ),
    "vmafx.app.settings.controller_client": ("ControllerClientSettings",),
    "vmafx.app.settings.node": ("NodeSettings",),
    "vmafx.app.settings.scorer": ("ScorerSettings",),
    "vmafx.app.settings.store": ("StoreSettings",),
    "vmafx.domain.address": ("HostPort",),
    "vmafx.domain.backoff": ("BackoffPolicy",),
    "vmafx.domain.callers": (
        "Principal",
        "Role",
    ),
    "vmafx.domain.errors": (
        "BackendMismatchError",
        "ClipError",
        "ConfigurationError",
        "ControllerError",
        "ForeignJobError",
        "IllegalTransitionError",
        "JobNotFoundError",
        "ModelError",
        "NotFiniteError",
        "OutsideRootsError",
        "QueueFullError",
        "ReportError",
        "RoleRequiredError",
        "ScoreTimeoutError",
        "ScorerError",
        "ScorerUnavailableError",
        "SessionNotFoundError",
        "SourceError",
        "SourceSyntaxError",
        "SpoolError",
        "StoreError",
        "StoreUnavailableError",
        "SubmissionConflictError",
        "TokenError",
        "VmafxError",
    ),
    "vmafx.domain.job": (
        "Job",
        "JobId",
        "JobResult",
        "JobSpec",
        "JobStatus",
        "NodeName",
        "SessionId",
        "TenantId",
    ),
    "vmafx.domain.lease": (
        "Heartbeat",
        "LeasePolicy",
    ),
    "vmafx.domain.nodesession": (
        "Capability",
        "InstanceId",
    ),
    "vmafx.domain.report": (
        "Partial",
        "Report",
    ),
    "vmafx.domain.retry": (
        "Call",
        "StatusCode",
    ),
    "vmafx.domain.roots": (
        "ResolvedSource",
        "RootTemplates",
        "ScoringRoots",
    ),
    "vmafx.domain.scoring": (
        "Backend",
        "Clip",
        "ClipDescriptor",
        "ClipFile",
        "Failure",
        "FrameScore",
        "LengthMismatch",
        "Retry",
        "ScoreRequest",
        "ScoreResult",
    ),
    "vmafx.domain.session_policy": ("SessionPolicy",),
    "vmafx.domain.session_state": ("Session",),
    "vmafx.domain.source": (
        "SourceKind",
        "SourceRef",
    ),
    "vmafx.ports.clock": ("Clock",),
    "vmafx.ports.controller": (
        "Assignment",
        "Controller",
        "Desk",
        "HeartbeatAnswer",
        "NodeIdentity",
        "Registration",
    ),
    "vmafx.ports.jobs": (
        "CancelAnswer",
        "JobView",
        "Jobs",
    ),
    "vmafx.ports.listener": ("Listener",),
    "vmafx.ports.scorer": (
        "Progress",
        "Scorer",
    ),
    "vmafx.ports.sources": ("SourceStore",),
    "vmafx.ports.telemetry": (
        "Level",
        "Telemetry",
    ),
    "vmafx.ports.tokens": (
        "TokenSource",
        "TokenVerifier",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
