-- Instants are whole microseconds since 1970-01-01 UTC. Texts compare by code point.

CREATE TABLE jobs (
    id                TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    tenant            TEXT    NOT NULL CHECK (tenant <> ''),
    status            TEXT    NOT NULL,
    reference         TEXT    NOT NULL CHECK (reference <> ''),
    distorted         TEXT    NOT NULL CHECK (distorted <> ''),
    model             TEXT,
    backend           TEXT    NOT NULL,                     -- '' when any will do, so that an index can be asked for it
    priority          INTEGER NOT NULL,
    idempotency_key   TEXT,
    max_lost_attempts INTEGER NOT NULL CHECK (max_lost_attempts >= 1),
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL,
    available_us      INTEGER NOT NULL,
    finished_us       INTEGER,
    attempt           INTEGER NOT NULL CHECK (attempt >= 0),
    lost_attempts     INTEGER NOT NULL CHECK (lost_attempts >= 0),
    never_started     INTEGER NOT NULL CHECK (never_started >= 0),
    assigned_node     TEXT,
    score             REAL,
    features          TEXT,                                 -- JSON object: name to number
    error             TEXT,
    CHECK (CASE status                                      -- in words one by one: SQLite makes a table of an IN list
           WHEN 'pending' THEN finished_us IS NULL AND score IS NULL AND features IS NULL AND error IS NULL
           WHEN 'running' THEN finished_us IS NULL AND score IS NULL AND features IS NULL AND error IS NULL
           WHEN 'completed' THEN finished_us NOT NULL AND score NOT NULL AND features NOT NULL AND error IS NULL
           WHEN 'failed' THEN finished_us NOT NULL AND score IS NULL AND features IS NULL AND error NOT NULL
           WHEN 'cancelled' THEN finished_us NOT NULL AND score IS NULL AND features IS NULL AND error IS NULL
           ELSE 0
           END)
) STRICT;

-- The queue: for one tenant and one backend the next job is the first entry, whatever else is stored. It ends in
-- `available_us` so that jobs that wait out a loss are passed over without being read.
CREATE INDEX jobs_queue ON jobs (tenant, backend, priority DESC, created_us, id, available_us)
    WHERE status = 'pending';

-- Listings by status, and the counts.
CREATE INDEX jobs_listing ON jobs (tenant, status, created_us, id);

CREATE UNIQUE INDEX jobs_submissions ON jobs (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- What ended first, for retention.
CREATE INDEX jobs_finished ON jobs (finished_us, id) WHERE finished_us IS NOT NULL;

CREATE TABLE attempts (
    job                   TEXT    NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number                INTEGER NOT NULL CHECK (number >= 1),
    node                  TEXT    NOT NULL,
    session               TEXT    NOT NULL,                 -- sessions are removed, attempts stay: no reference
    session_registered_us INTEGER NOT NULL,
    first_registered_us   INTEGER NOT NULL,
    instance              TEXT,
    started_us            INTEGER NOT NULL,
    pull_deadline_us      INTEGER NOT NULL,
    lease_expires_us      INTEGER,
    listed                INTEGER NOT NULL CHECK (listed IN (0, 1)),
    unlisted_heartbeats   INTEGER NOT NULL CHECK (unlisted_heartbeats >= 0),
    outcome               TEXT,
    ended_us              INTEGER,
    error                 TEXT,
    PRIMARY KEY (job, number),
    CHECK (CASE
           WHEN outcome IS NULL THEN ended_us IS NULL AND lease_expires_us NOT NULL
           ELSE ended_us NOT NULL AND lease_expires_us IS NULL
           END),
    CHECK (CASE outcome
           WHEN 'completed' THEN 1
           WHEN 'failed' THEN 1
           WHEN 'released' THEN 1
           WHEN 'expired' THEN 1
           WHEN 'cancelled' THEN 1
           WHEN 'never_started' THEN 1
           WHEN 'undone' THEN 1
           WHEN 'superseded' THEN 1
           ELSE outcome IS NULL
           END)
) STRICT, WITHOUT ROWID;

-- What runs, however many attempts have ended. The leases stand in it, so that a sweep reads nothing else; an index in
-- their order would be one more page to write with each claim, heartbeat and report. The outcome stands in it because
-- SQLite looks it up in the table otherwise.
CREATE INDEX attempts_open ON attempts (session, job, lease_expires_us, outcome) WHERE outcome IS NULL;

CREATE TABLE sessions (
    id                TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    tenant            TEXT    NOT NULL CHECK (tenant <> ''),
    node              TEXT    NOT NULL CHECK (node <> ''),
    token_sha256      BLOB    NOT NULL CHECK (length(token_sha256) = 32),
    instance          TEXT,
    backends          TEXT    NOT NULL,                     -- words with commas between, sorted
    gpu_vendor        TEXT    NOT NULL,
    concurrency       INTEGER NOT NULL,
    registered_us     INTEGER NOT NULL,
    expires_us        INTEGER NOT NULL,
    last_heartbeat_us INTEGER
) STRICT, WITHOUT ROWID;

-- Two sessions of a node name never register at one instant.
CREATE UNIQUE INDEX sessions_names ON sessions (tenant, node, registered_us);
CREATE INDEX sessions_expiry ON sessions (expires_us, id);
