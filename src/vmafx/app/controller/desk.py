"""Desks: the controller as nodes see it, one desk for each tenant (ADR 0025)."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NoReturn

from vmafx.app.controller import events
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.answering import Answering, Asked
from vmafx.app.controller.namesakes import Namesakes
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.waiting import PullWaits
from vmafx.app.controller.whole import whole
from vmafx.domain.errors import OutsideRootsError, SessionNotFoundError, StoreError
from vmafx.domain.job import JobId, SessionId, TenantId, node_name_problem
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, NodeSession, SessionKey
from vmafx.domain.refusals import refused
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.retry import Call, StatusCode, controller_error
from vmafx.domain.scoring import Backend
from vmafx.domain.session_state import Session
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Assignment, Desk, HeartbeatAnswer, NodeIdentity, Registration
from vmafx.ports.jobstore import AttemptKey, AttemptStore, Claim
from vmafx.ports.sessionstore import SessionStore
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["PULL_MARGIN_S", "SECRET_BYTES", "Desks"]

PULL_MARGIN_S: Final = 1.0
"""How long before its caller's deadline a pull that waits is answered, in seconds."""
SECRET_BYTES: Final = 32
"""How long the secret of a session is, in bytes."""

_REGISTER: Final = Asked(doing="register node", call=Call.REGISTER.value)
_HEARTBEAT: Final = Asked(doing="heartbeat: look up cancelled jobs", call=Call.HEARTBEAT.value)
_PULL: Final = Asked(doing="pull work", call=Call.PULL.value)
_REPORT: Final = Asked(doing="report result", call=Call.REPORT.value)
_TAKE_BACK: Final = "take an assignment back"


class Desks:
    """Gives each tenant its desk; a desk holds nothing, so any number of them may be made.

    Args:
        attempts: Where attempts are kept, and the jobs that they are of.
        sessions: Where sessions are kept; the same store.
        policy: How the controller works.
        clock: Whose time everything goes by; one that does not step.
        telemetry: Is told of what was refused and what failed.
        outage: Is told when the store fails.
        waits: The pulls that wait for work.
        aftermath: Is passed whatever was stored.
        new_id: Returns an id that no session has had.
        new_secret: Returns so many bytes that nobody can guess.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that a desk needs
        self,
        attempts: AttemptStore,
        sessions: SessionStore,
        *,
        policy: ControllerPolicy,
        clock: Clock,
        telemetry: Telemetry,
        outage: Outage,
        waits: PullWaits,
        aftermath: Aftermath,
        new_id: Callable[[], str],
        new_secret: Callable[[int], bytes],
    ) -> None:
        self.attempts: Final = attempts
        self.sessions: Final = sessions
        self.policy: Final = policy
        self.clock: Final = clock
        self.telemetry: Final = telemetry
        self.outage: Final = outage
        self.waits: Final = waits
        self.aftermath: Final = aftermath
        self.new_id: Final = new_id
        self.new_secret: Final = new_secret
        self.namesakes: Final = Namesakes(telemetry)

    def of(self, tenant: TenantId) -> Desk:
        """Return the desk of a tenant: it sees that tenant's nodes and jobs and no others."""
        return _TenantDesk(self, tenant)


class _TenantDesk:
    """A `Desk` for the nodes of one tenant."""

    def __init__(self, shared: Desks, tenant: TenantId) -> None:
        self._shared = shared
        self._tenant = tenant
        self._attempts = shared.attempts
        self._clock = shared.clock
        self._aftermath = shared.aftermath
        self._answering = Answering(tenant, clock=shared.clock, outage=shared.outage)

    # ------------------------------------------------------------ the port

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        """Open a session.

        Raises:
            ControllerError: The name is empty or too long, or the call failed.
        """
        _check(identity)
        secret = urlsafe_b64encode(self._shared.new_secret(SECRET_BYTES)).rstrip(b"=").decode("ascii")
        now = self._clock.now()
        session = NodeSession(
            id=SessionId(self._shared.new_id()),
            tenant=self._tenant,
            node=identity.name,
            registered_at=now,
            expires_at=now + timedelta(seconds=self._shared.policy.lease.session_ttl_s),
            instance=identity.instance,
            capability=capability,
        )
        async with self._answering.within(timeout_s, _REGISTER):
            await whole(self._open(session, _digest(secret)), name=_REGISTER.doing)
        return Registration(node_id=session.id, session_token=secret)

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        """Keep the session and the leases of the listed jobs.

        Raises:
            ControllerError: The call failed; a session that is refused is no failure.
        """
        key, now = self._key(session), self._clock.now()
        async with self._answering.within(timeout_s, _HEARTBEAT):
            try:
                cancelled = await whole(self._beat(key, heartbeat, now), name=_HEARTBEAT.doing)
            except SessionNotFoundError:
                return HeartbeatAnswer(ok=False)
        return HeartbeatAnswer(ok=True, cancel_job_ids=cancelled)

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        """Assign a job, now or as soon as one comes within the wait.

        Raises:
            ControllerError: The session is not valid, before or after the wait, or the call failed.
        """
        key, backends = self._key(session), capability.backends
        deadline_at = self._clock.now() + timedelta(seconds=timeout_s)
        wait_s = min(self._shared.policy.pull_wait_s, timeout_s - PULL_MARGIN_S)
        until_s = self._clock.monotonic() + wait_s

        async def claim() -> Claim | None:
            return await self._claim(key, backends, deadline_at)

        async with self._answering.within(timeout_s, _PULL):
            found = await self._shared.waits.claimed(self._tenant, backends, claim, until_s=until_s)
        return None if found is None else self._assignment(found)

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        """Take a report.

        Raises:
            ControllerError: The session is not valid, the job is not the reporter's, or the call failed.
        """
        key, now = self._key(session), self._clock.now()
        async with self._answering.within(timeout_s, _REPORT):
            verdict = await whole(self._judge(key, job_id, report, now), name=_REPORT.doing)
        if verdict is ReportVerdict.REFUSE:
            self._refuse_report(session, job_id, report)

    async def take_back(self, session: Session, assignment: Assignment) -> None:
        """Undo a pull whose answer did not reach its node; what cannot be undone, heartbeats find."""
        if assignment.attempt is None:
            return
        key = AttemptKey(
            tenant=self._tenant,
            job_id=assignment.job_id,
            attempt=assignment.attempt,
            session=session.node_id,
        )
        await whole(self._undo(key), name=_TAKE_BACK)

    # ------------------------------------------------------------ a store's call, and what follows from it

    async def _open(self, session: NodeSession, token_sha256: bytes) -> None:
        opened = await self._shared.sessions.register(session, token_sha256=token_sha256)
        self._aftermath.registered(opened)
        self._shared.namesakes.registered(opened)

    async def _beat(self, key: SessionKey, heartbeat: Heartbeat, now: datetime) -> tuple[JobId, ...]:
        answer = await self._attempts.heartbeat(key, heartbeat, now=now)
        self._aftermath.changes(answer.changes)
        self._shared.namesakes.beat(key.session)
        return answer.cancelled

    async def _claim(
        self, key: SessionKey, backends: frozenset[Backend], deadline_at: datetime
    ) -> Claim | None:
        # A caller that is cancelled meanwhile has the job taken back before it goes on.
        made: Claim | None = None

        async def work() -> Claim | None:
            nonlocal made
            made = await self._attempts.claim(
                key, backends, now=self._clock.now(), pull_deadline_at=deadline_at
            )
            if made is not None:
                self._aftermath.claimed(made)
            return made

        try:
            return await whole(work(), name=_PULL.doing)
        except asyncio.CancelledError:
            if made is not None:
                await whole(self._undo(made.key), name=_TAKE_BACK)
            raise

    async def _judge(self, key: SessionKey, job_id: JobId, report: Report, now: datetime) -> ReportVerdict:
        try:
            answer = await self._attempts.report(key, job_id, report.storable(), now=now)
        except SessionNotFoundError as error:
            raise refused(error) from error  # without a word of the call, as its callers know it
        if answer.change is not None:
            self._aftermath.changed(answer.change)
        return answer.verdict

    async def _undo(self, key: AttemptKey) -> None:
        try:
            self._aftermath.changed(await self._attempts.undo(key, now=self._clock.now()))
        except StoreError as error:
            fields = {"job_id": events.shown_id(key.job_id), "node_id": events.shown_id(key.session)}
            self._tell(events.TAKE_BACK_FAILED, {**fields, "attempt": key.attempt}, error=error)

    # ------------------------------------------------------------ answers

    def _assignment(self, claim: Claim) -> Assignment:
        spec = claim.job.spec
        return Assignment(
            job_id=claim.job.id,
            reference=spec.reference,
            distorted=spec.distorted,
            model=spec.model or "",
            backend="" if spec.backend is None else spec.backend.value,
            scoring_roots=self._roots(),
            attempt=claim.attempt.number,
        )

    def _roots(self) -> tuple[str, ...]:
        """Return the tenant's roots; without any, the node refuses the job and says why."""
        try:
            return self._shared.policy.roots.for_tenant(self._tenant).texts
        except OutsideRootsError as error:
            self._tell(events.ROOTS_FAILED, {}, error=error)
            return ()

    def _refuse_report(self, session: Session, job_id: JobId, report: Report) -> NoReturn:
        fields = {"job_id": events.shown_id(job_id), "node_id": events.shown_id(session.node_id)}
        self._tell(events.REPORT_REFUSED, {**fields, "attempt": report.attempt})
        message = f"job {quoted(job_id)} is not assigned to node {quoted(session.node_id)}"
        raise controller_error(StatusCode.PERMISSION_DENIED, message)

    def _tell(
        self, message: str, fields: dict[str, str | int | None], *, error: Exception | None = None
    ) -> None:
        about = {"tenant": events.shown_id(self._tenant), **fields}
        self._shared.telemetry.event(Level.WARN, message, about, error=error)

    def _key(self, session: Session) -> SessionKey:
        return SessionKey(
            tenant=self._tenant, session=session.node_id, token_sha256=_digest(session.session_token)
        )


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()


def _check(identity: NodeIdentity) -> None:
    problem = node_name_problem(identity.name)
    if problem is not None:
        raise controller_error(StatusCode.INVALID_ARGUMENT, problem)


if TYPE_CHECKING:
    _port: type[Desk] = _TenantDesk
