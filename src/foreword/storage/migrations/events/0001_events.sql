-- Events and their totals.

CREATE TABLE IF NOT EXISTS alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE events (
  id INTEGER NOT NULL,
  timestamp TEXT NOT NULL,
  level TEXT NOT NULL,
  category TEXT NOT NULL,
  session_id TEXT,
  agent_id TEXT,
  user_id TEXT,
  channel TEXT,
  event_type TEXT NOT NULL,
  duration_ms INTEGER,
  tokens_in INTEGER,
  tokens_out INTEGER,
  cost_usd DOUBLE,
  error TEXT,
  metadata TEXT,
  room TEXT,
  schedule TEXT,
  trust INTEGER NOT NULL,
  model TEXT,
  trace_id TEXT,
  span_id TEXT,
  parent_id TEXT,
  prompt_hash TEXT,
  cache_read INTEGER,
  cache_write INTEGER,
  PRIMARY KEY (id)
);
CREATE INDEX idx_events_session ON events (session_id, timestamp);
CREATE INDEX idx_events_error ON events (level, timestamp) WHERE level IN ('warn', 'error');
CREATE INDEX idx_events_own_error ON events (user_id, timestamp) WHERE level IN ('warn', 'error');
CREATE INDEX idx_events_type ON events (event_type, timestamp);
CREATE INDEX idx_events_user ON events (user_id, timestamp);
CREATE INDEX idx_events_channel ON events (channel, timestamp);
CREATE INDEX idx_events_room ON events (room, timestamp) WHERE room IS NOT NULL;
CREATE INDEX idx_events_trace ON events (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX idx_events_time ON events (timestamp);

-- The order of the key decides which queries are short scans: quarter-hours are queried by time range, days by name.
CREATE TABLE totals_quarter (
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  room TEXT NOT NULL,
  start TEXT NOT NULL,
  name TEXT NOT NULL,
  trust INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  unpriced INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost_usd DOUBLE NOT NULL,
  PRIMARY KEY (kind, owner, room, start, name, trust)
)
 WITHOUT ROWID;

CREATE TABLE totals_day (
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  room TEXT NOT NULL,
  name TEXT NOT NULL,
  start TEXT NOT NULL,
  trust INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  unpriced INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost_usd DOUBLE NOT NULL,
  PRIMARY KEY (kind, owner, room, name, start, trust)
)
 WITHOUT ROWID;
