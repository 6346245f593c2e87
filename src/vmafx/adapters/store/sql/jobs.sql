-- Every query that the store makes, by name. Reports, cancels and heartbeats go by primary key; no query reads a
-- clock; the columns of a job are always these, in this order.

-- name: job
SELECT id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
       created_us, updated_us, available_us, finished_us, attempt, lost_attempts, never_started, assigned_node,
       score, features, error
  FROM jobs
 WHERE id = ?;

-- name: submitted_as
SELECT id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
       created_us, updated_us, available_us, finished_us, attempt, lost_attempts, never_started, assigned_node,
       score, features, error
  FROM jobs
 WHERE tenant = ? AND idempotency_key = ?;

-- name: next_claimable
-- The first entry of `jobs_queue` for one backend. Asked once for each backend of the node and once for none: one
-- query over all of them would read past every waiting job that the node cannot run.
SELECT id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
       created_us, updated_us, available_us, finished_us, attempt, lost_attempts, never_started, assigned_node,
       score, features, error
  FROM jobs
 WHERE tenant = ? AND backend = ? AND status = 'pending' AND available_us <= ?
 ORDER BY priority DESC, created_us, id
 LIMIT 1;

-- name: waits_beyond
-- Runs through the whole queue, 0.2 s for a million jobs, and reads no job: for a start, and after an absence.
SELECT id
  FROM jobs INDEXED BY jobs_queue
 WHERE status = 'pending' AND available_us > ?
 LIMIT ?;

-- name: page
-- One status at a time, each in order; whoever asks for several merges them.
SELECT id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
       created_us, updated_us, available_us, finished_us, attempt, lost_attempts, never_started, assigned_node,
       score, features, error
  FROM jobs
 WHERE tenant = ? AND status = ? AND (created_us, id) > (?, ?)
 ORDER BY created_us, id
 LIMIT ?;

-- name: pending
-- Counts no further than it must.
SELECT count(*)
  FROM (SELECT 1 FROM jobs WHERE tenant = ? AND status = 'pending' LIMIT ?);

-- name: counts
-- Steps from tenant to tenant through `jobs_listing`; what has ended is never counted.
WITH RECURSIVE tenants (tenant) AS (
    SELECT min(tenant) FROM jobs
     UNION ALL
    SELECT (SELECT min(jobs.tenant) FROM jobs WHERE jobs.tenant > tenants.tenant)
      FROM tenants
     WHERE tenants.tenant IS NOT NULL
)
SELECT tenants.tenant,
       (SELECT count(*) FROM jobs WHERE jobs.tenant = tenants.tenant AND status = 'pending'),
       (SELECT count(*) FROM jobs WHERE jobs.tenant = tenants.tenant AND status = 'running'),
       (SELECT min(created_us) FROM jobs WHERE jobs.tenant = tenants.tenant AND status = 'pending')
  FROM tenants
 WHERE tenants.tenant IS NOT NULL;

-- name: waiting
-- Steps through `jobs_queue` from tenant to tenant and from backend to backend, and counts no further than it must.
WITH RECURSIVE tenants (tenant) AS (
    SELECT min(tenant) FROM jobs INDEXED BY jobs_queue WHERE status = 'pending'
     UNION ALL
    SELECT (SELECT min(jobs.tenant)
              FROM jobs INDEXED BY jobs_queue
             WHERE jobs.tenant > tenants.tenant AND status = 'pending')
      FROM tenants
     WHERE tenants.tenant IS NOT NULL
),
asked (tenant, backend) AS (
    SELECT tenant, '' FROM tenants WHERE tenant IS NOT NULL
     UNION ALL
    SELECT asked.tenant,
           (SELECT min(jobs.backend)
              FROM jobs INDEXED BY jobs_queue
             WHERE jobs.tenant = asked.tenant AND jobs.backend > asked.backend AND status = 'pending')
      FROM asked
     WHERE asked.backend IS NOT NULL
)
SELECT asked.tenant, asked.backend,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM jobs INDEXED BY jobs_queue
                 WHERE jobs.tenant = asked.tenant AND jobs.backend = asked.backend AND status = 'pending'
                 LIMIT ?))
  FROM asked
 WHERE asked.backend <> ''
 ORDER BY asked.tenant, asked.backend;

-- name: add_job
INSERT INTO jobs (
    id, tenant, status, reference, distorted, model, backend, priority, idempotency_key, max_lost_attempts,
    created_us, updated_us, available_us, finished_us, attempt, lost_attempts, never_started, assigned_node,
    score, features, error
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: write_job
-- What can change of a job, on condition that it is as it was read.
UPDATE jobs
   SET status = ?, updated_us = ?, available_us = ?, finished_us = ?, attempt = ?, lost_attempts = ?,
       never_started = ?, assigned_node = ?, score = ?, features = ?, error = ?
 WHERE id = ? AND tenant = ? AND status = ? AND attempt = ?;

-- name: purge
-- Attempts go with their job.
DELETE FROM jobs
 WHERE id IN (
    SELECT id
      FROM jobs
     WHERE finished_us IS NOT NULL AND finished_us < ?
     ORDER BY finished_us, id
     LIMIT ?
 );
