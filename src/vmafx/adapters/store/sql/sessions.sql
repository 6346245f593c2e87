-- name: session
SELECT id, tenant, node, registered_us, expires_us, last_heartbeat_us, instance, backends, gpu_vendor, concurrency,
       token_sha256
  FROM sessions
 WHERE id = ?;

-- name: sessions
SELECT id, tenant, node, registered_us, expires_us, last_heartbeat_us, instance, backends, gpu_vendor, concurrency,
       token_sha256
  FROM sessions
 WHERE id > ?
 ORDER BY id
 LIMIT ?;

-- name: live_sessions
SELECT id, tenant, node, registered_us, expires_us, last_heartbeat_us, instance, backends, gpu_vendor, concurrency,
       token_sha256
  FROM sessions
 WHERE tenant = ? AND expires_us >= ?
 ORDER BY registered_us, id;

-- name: live_count
SELECT count(*) FROM sessions WHERE expires_us >= ?;

-- name: sessions_over
SELECT id, tenant, node, registered_us, expires_us, last_heartbeat_us, instance, backends, gpu_vendor, concurrency,
       token_sha256
  FROM sessions
 WHERE expires_us < ?
 ORDER BY expires_us, id
 LIMIT ?;

-- name: newest_registration
SELECT max(registered_us) FROM sessions WHERE tenant = ? AND node = ?;

-- name: add_session
INSERT INTO sessions (
    id, tenant, node, registered_us, expires_us, last_heartbeat_us, instance, backends, gpu_vendor, concurrency,
    token_sha256
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: write_session
UPDATE sessions SET expires_us = ?, last_heartbeat_us = ? WHERE id = ?;

-- name: remove_session
DELETE FROM sessions WHERE id = ?;
