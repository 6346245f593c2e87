-- name: history
-- A job with each of its attempts, or alone: one query costs less than two.
SELECT id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
       created_us, updated_us, available_us, finished_us, jobs.attempt, lost_attempts, never_started, assigned_node,
       score, features, jobs.error,
       number, node, session, session_registered_us, first_registered_us, instance, started_us, pull_deadline_us,
       lease_expires_us, listed, unlisted_heartbeats, outcome, ended_us, attempts.error
  FROM jobs LEFT JOIN attempts ON attempts.job = jobs.id
 WHERE jobs.id = ?
 ORDER BY attempts.number;

-- name: held
SELECT job FROM attempts INDEXED BY attempts_open WHERE session = ? AND outcome IS NULL ORDER BY job;

-- name: leases
-- Left to itself SQLite would read every attempt there ever was.
SELECT session, job
  FROM attempts INDEXED BY attempts_open
 WHERE outcome IS NULL AND (session, job) > (?, ?)
 ORDER BY session, job
 LIMIT ?;

-- name: leases_over
-- Reads what runs, no more.
SELECT lease_expires_us, job
  FROM attempts INDEXED BY attempts_open
 WHERE outcome IS NULL AND lease_expires_us < ?
 ORDER BY lease_expires_us, job
 LIMIT ?;

-- name: add_attempt
INSERT INTO attempts (
    job, number, node, session, session_registered_us, first_registered_us, instance, started_us,
    pull_deadline_us, lease_expires_us, listed, unlisted_heartbeats, outcome, ended_us, error
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: write_attempt
-- What can change of an attempt, on condition that it is as it was read. The plus keeps the session from being
-- taken for a way to the row: that way is the primary key.
UPDATE attempts
   SET session = ?, session_registered_us = ?, instance = ?, lease_expires_us = ?, listed = ?,
       unlisted_heartbeats = ?, outcome = ?, ended_us = ?, error = ?
 WHERE job = ? AND number = ? AND +session = ? AND +outcome IS ?;
