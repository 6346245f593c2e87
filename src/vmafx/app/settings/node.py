"""NodeSettings: everything that a node is told by its environment (ADR 0019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vmafx.app.settings.controller_client import CLIENT, ControllerClientSettings
from vmafx.app.settings.ebpf import EbpfSettings
from vmafx.app.settings.files import FileChecks, file_problems
from vmafx.app.settings.forms import DURATION, NODE_NAME, PATH, PROGRAM, ROOTS, whole
from vmafx.app.settings.grammar import EnvironmentReader
from vmafx.app.settings.grpc_listener import GrpcListenerSettings
from vmafx.app.settings.http_listener import HttpSettings
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.parts import Part, optional, part, required, setting
from vmafx.app.settings.pod import PodSettings
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.app.settings.storage import SourceSettings, SpoolSettings, StorageSettings
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import HEARTBEAT_JOBS_MAX
from vmafx.domain.roots import ScoringRoots
from vmafx.domain.scoring import Backend
from vmafx.domain.session_policy import SHUTDOWN_TIMEOUT_S
from vmafx.domain.text import quoted

__all__ = ["NodeSettings"]

CONCURRENT_SCORES_MAX: Final = 1024
"""Most direct calls that are scored at once."""
_NAME: Final = "VMAFX_NODE_ID"
_BACKEND: Final = "VMAFX_BACKEND"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings(Part):
    """Everything that a node is told; `unserved` names what this version of it does nothing with.

    Attributes:
        name: What the node is called at the controller; at most 256 bytes.
        slots: How many jobs run at once, 1 to 64.
        shutdown_timeout_s: How long stopping may take, in seconds.
        max_concurrent_scores: How many direct calls are scored at once, 1 to 1024; None means `slots`.
        scoring_roots: Below which places the inputs of direct calls must lie; None means that none are set.
        ffmpeg: The name or path of the FFmpeg whose encoders are listed.
        sidecar_socket: The socket that feedback goes to.
        controller: Which controller it works for, and how it calls it.
        scorer: How it scores.
        grpc: Its listener for calls.
        http: Its listener for metrics and probes.
        storage: How it reads remotes of rclone.
        sources: How it reads other remote clips.
        spool: Where it keeps results that it could not deliver.
        ebpf: The tracker of descriptors.
        log: How much it logs, and in which form.
        otel: Where it exports traces, metrics and logs to.
        pod: Where Kubernetes runs it.
    """

    name: str = required(
        _NAME, NODE_NAME, "node.id unset and host name unavailable", key="node.id", group=CLIENT
    )
    slots: int = setting("VMAFX_NODE_SLOTS", whole(1, HEARTBEAT_JOBS_MAX), 1, key="node.slots", group=CLIENT)
    shutdown_timeout_s: float = setting("VMAFX_SHUTDOWN_TIMEOUT", DURATION, SHUTDOWN_TIMEOUT_S)
    max_concurrent_scores: int | None = optional(
        "VMAFX_MAX_CONCURRENT_SCORES", whole(1, CONCURRENT_SCORES_MAX)
    )
    scoring_roots: ScoringRoots | None = optional("VMAFX_SCORING_ROOTS", ROOTS)
    ffmpeg: str = setting("VMAFX_FFMPEG_BIN", PROGRAM, "ffmpeg")
    sidecar_socket: str = setting("VMAFX_SIDECAR_SOCKET", PATH, "/tmp/vmafx-sidecar.sock")  # noqa: S108 - the contract
    controller: ControllerClientSettings = part(ControllerClientSettings)
    scorer: ScorerSettings = part(ScorerSettings)
    grpc: GrpcListenerSettings = part(GrpcListenerSettings)
    http: HttpSettings = part(HttpSettings)
    storage: StorageSettings = part(StorageSettings)
    sources: SourceSettings = part(SourceSettings)
    spool: SpoolSettings = part(SpoolSettings)
    ebpf: EbpfSettings = part(EbpfSettings)
    log: LogSettings = part(LogSettings)
    otel: OtelSettings = part(OtelSettings)
    pod: PodSettings = part(PodSettings)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], *, host_name: str | None = None, files: FileChecks | None = None
    ) -> NodeSettings:
        """Read the settings from environment variables.

        Args:
            environment: Names to values, such as `os.environ`.
            host_name: What the node is called where `VMAFX_NODE_ID` is unset; None or blank where the machine
                has no name.
            files: How what the settings need of the machine is looked at; None leaves it alone.

        Raises:
            ConfigurationError: At least one value cannot be honoured; names every such variable.
        """
        read = EnvironmentReader(
            {**environment, _NAME: environment.get(_NAME, "").strip() or host_name or ""}
        )
        settings = cls.read(read)
        if read.text("VMAFX_CONTROLLER_ADDR") is not None:
            read.replace(_as_advertised)
        if files is not None:
            read.refuse(*file_problems(settings.controller, settings.storage, settings.sources, files))
        read.finish()
        return settings

    def score_threads(self, processors: int) -> int:
        """Return the threads of one run, so that full slots use every processor once.

        Args:
            processors: How many processors this process may use.
        """
        return self.scorer.threads or max(1, processors // self.slots)


def _as_advertised(problem: ConfigurationError) -> ConfigurationError:
    """What is wrong with the backend, where a controller is to be told of it."""
    if problem.setting != _BACKEND:
        return problem
    words = ", ".join(backend.value for backend in Backend)
    told = (
        f"{_BACKEND}={quoted(problem.value or '')} cannot be advertised to the controller; use one of {words}"
    )
    return ConfigurationError(_BACKEND, told, group=CLIENT, named=True)
