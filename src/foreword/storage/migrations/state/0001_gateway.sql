-- Sessions, turns, history, outbox, plans, tasks and tokens.
-- Times are ISO 8601 in UTC; those that a worker compares with its clock (due, lease_until) are seconds since 1970.

CREATE TABLE IF NOT EXISTS alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- user_id: empty in a room.
-- parent: the session it was forked from.
-- model: empty for the agent's model.
CREATE TABLE sessions (
  id TEXT NOT NULL,
  agent TEXT NOT NULL,
  channel TEXT NOT NULL,
  room TEXT DEFAULT '' NOT NULL,
  clearance INTEGER NOT NULL,
  user_id TEXT DEFAULT '' NOT NULL,
  situation TEXT NOT NULL,
  created TEXT NOT NULL,
  used TEXT NOT NULL,
  parent TEXT,
  current INTEGER DEFAULT 0 NOT NULL,
  "plan" INTEGER DEFAULT 0 NOT NULL,
  model TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);

-- Unique, so that two simultaneous messages do not start two sessions.
CREATE UNIQUE INDEX idx_sessions_current ON sessions (agent, channel, room, clearance, user_id) WHERE current = 1;
CREATE INDEX idx_sessions_place ON sessions (agent, channel, room, clearance, user_id, used);
CREATE INDEX idx_sessions_user ON sessions (user_id, used);
CREATE INDEX idx_sessions_used ON sessions (used);

-- number: in the order of acceptance.
-- request, usage: JSON.
-- taken: completed steps, from which a restarted turn continues.
-- cut: the reply was cut because it was too long.
-- stop: a stop was requested.
-- key: the channel's id of the message.
CREATE TABLE turns (
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  user_id TEXT DEFAULT '' NOT NULL,
  channel TEXT NOT NULL,
  text TEXT NOT NULL,
  request TEXT DEFAULT '{}' NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER DEFAULT 0 NOT NULL,
  due DOUBLE DEFAULT 0 NOT NULL,
  lease_until DOUBLE DEFAULT 0 NOT NULL,
  lease_owner TEXT DEFAULT '' NOT NULL,
  taken BLOB,
  reply TEXT,
  cut INTEGER DEFAULT 0 NOT NULL,
  usage TEXT,
  cost_usd DOUBLE,
  prompt_hash TEXT,
  place TEXT,
  received TEXT NOT NULL,
  finished TEXT,
  stop INTEGER DEFAULT 0 NOT NULL,
  "key" TEXT,
  PRIMARY KEY (number),
  UNIQUE (id),
  FOREIGN KEY(session_id) REFERENCES sessions (id),
  UNIQUE ("key")
);
CREATE INDEX idx_turns_due ON turns (state, due) WHERE finished IS NULL;
CREATE INDEX idx_turns_open ON turns (session_id, number) WHERE finished IS NULL;
CREATE INDEX idx_turns_session ON turns (session_id, number);
CREATE INDEX idx_turns_user ON turns (user_id, received);

-- kind: turn, summary or outside.
-- folded: compacted, that is replaced by a summary.
-- beginning: hash of the conversation up to here.
CREATE TABLE history (
  session_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  turn_id TEXT,
  kind TEXT NOT NULL,
  messages BLOB NOT NULL,
  tokens INTEGER DEFAULT 0 NOT NULL,
  folded INTEGER DEFAULT 0 NOT NULL,
  beginning TEXT,
  PRIMARY KEY (session_id, position, kind),
  FOREIGN KEY(session_id) REFERENCES sessions (id),
  FOREIGN KEY(turn_id) REFERENCES turns (id)
);
CREATE INDEX idx_history_beginning ON history (beginning) WHERE beginning IS NOT NULL;
CREATE INDEX idx_history_turn ON history (turn_id);

CREATE TABLE outbox (
  id INTEGER NOT NULL,
  turn_id TEXT NOT NULL,
  channel TEXT NOT NULL,
  address TEXT DEFAULT '' NOT NULL,
  text TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER DEFAULT 0 NOT NULL,
  due DOUBLE DEFAULT 0 NOT NULL,
  lease_until DOUBLE DEFAULT 0 NOT NULL,
  lease_owner TEXT DEFAULT '' NOT NULL,
  sent TEXT,
  PRIMARY KEY (id),
  UNIQUE (turn_id),
  FOREIGN KEY(turn_id) REFERENCES turns (id)
);
CREATE INDEX idx_outbox_due ON outbox (state, due);

CREATE TABLE begun (
  turn_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (turn_id, call_id),
  FOREIGN KEY(turn_id) REFERENCES turns (id)
)
 WITHOUT ROWID;

-- Plans and tasks have no foreign key to sessions: they can be used without a gateway.
CREATE TABLE plans (
  id INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  created TEXT NOT NULL,
  text TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX idx_plans_session ON plans (session_id, id);

-- steps: JSON.
CREATE TABLE tasks (
  session_id TEXT NOT NULL,
  id TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT DEFAULT '' NOT NULL,
  status TEXT NOT NULL,
  steps TEXT DEFAULT '[]' NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (session_id, id)
)
 WITHOUT ROWID;

CREATE TABLE tokens (
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  created TEXT NOT NULL,
  used TEXT,
  expires TEXT,
  PRIMARY KEY (id),
  UNIQUE (hash)
);
CREATE INDEX idx_tokens_user ON tokens (user_id);
