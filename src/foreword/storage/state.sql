-- revision 0007, written by python -m foreword.storage.migration
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
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
  model TEXT DEFAULT '' NOT NULL, overheard INTEGER DEFAULT 0 NOT NULL, project TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);
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
CREATE TABLE begun (
  turn_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (turn_id, call_id),
  FOREIGN KEY(turn_id) REFERENCES turns (id)
)
 WITHOUT ROWID;
CREATE TABLE plans (
  id INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  created TEXT NOT NULL,
  text TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (id)
);
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
CREATE TABLE agent_configurations (
  id INTEGER NOT NULL,
  agent_name TEXT NOT NULL,
  soul TEXT DEFAULT '' NOT NULL,
  identity JSON,
  updated TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (agent_name)
);
CREATE TABLE user_agent_prompt_customizations (
  id INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  agent_name TEXT NOT NULL,
  instructions TEXT DEFAULT '' NOT NULL,
  updated TEXT DEFAULT '' NOT NULL, clearance INTEGER DEFAULT 1 NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT uq_user_agent_instructions UNIQUE (user_id, agent_name)
);
CREATE TABLE outbox (
  id INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  turn_id TEXT,
  channel TEXT NOT NULL,
  address TEXT DEFAULT '' NOT NULL,
  text TEXT NOT NULL,
  part INTEGER DEFAULT 0 NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER DEFAULT 0 NOT NULL,
  due DOUBLE DEFAULT 0 NOT NULL,
  lease_until DOUBLE DEFAULT 0 NOT NULL,
  lease_owner TEXT DEFAULT '' NOT NULL,
  sent TEXT,
  PRIMARY KEY (id),
  UNIQUE ("key"),
  FOREIGN KEY(turn_id) REFERENCES turns (id)
);
CREATE TABLE identities (
  identity TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  paired TEXT NOT NULL,
  PRIMARY KEY (identity)
);
CREATE TABLE pairings (
  hash TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created TEXT NOT NULL,
  expires TEXT NOT NULL,
  PRIMARY KEY (hash)
);
CREATE TABLE overheard (
  id INTEGER NOT NULL,
  channel TEXT NOT NULL,
  room TEXT NOT NULL,
  user_id TEXT DEFAULT '' NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  text TEXT NOT NULL,
  heard TEXT NOT NULL,
  "key" TEXT,
  PRIMARY KEY (id),
  UNIQUE ("key")
);
CREATE TABLE schedules (
  id TEXT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  origin TEXT NOT NULL,
  agent TEXT NOT NULL,
  user_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  moment TEXT NOT NULL,
  zone TEXT DEFAULT '' NOT NULL,
  say TEXT DEFAULT '' NOT NULL,
  delivery TEXT NOT NULL,
  channel TEXT DEFAULT '' NOT NULL,
  address TEXT DEFAULT '' NOT NULL,
  room TEXT DEFAULT '' NOT NULL,
  situation TEXT NOT NULL,
  clearance INTEGER NOT NULL,
  missed TEXT NOT NULL,
  created TEXT NOT NULL,
  due DOUBLE,
  ran DOUBLE,
  note TEXT DEFAULT '' NOT NULL,
  state TEXT NOT NULL,
  lease_until DOUBLE DEFAULT 0 NOT NULL,
  lease_owner TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
);
CREATE TABLE archives (
  path TEXT NOT NULL,
  session_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  channel TEXT NOT NULL,
  room TEXT DEFAULT '' NOT NULL,
  user_id TEXT DEFAULT '' NOT NULL,
  clearance INTEGER NOT NULL,
  people TEXT DEFAULT '[]' NOT NULL,
  upto INTEGER DEFAULT 0 NOT NULL,
  written TEXT,
  PRIMARY KEY (path),
  UNIQUE (session_id)
)
 WITHOUT ROWID;
CREATE TABLE workflows (
  session_id TEXT NOT NULL,
  text TEXT NOT NULL,
  updated TEXT NOT NULL,
  PRIMARY KEY (session_id)
)
 WITHOUT ROWID;
CREATE TABLE profiles (
  user_id TEXT NOT NULL,
  clearance INTEGER NOT NULL,
  learned TEXT NOT NULL,
  messages INTEGER DEFAULT 0 NOT NULL,
  updated TEXT NOT NULL,
  PRIMARY KEY (user_id, clearance)
)
 WITHOUT ROWID;
CREATE TABLE bulletins (
  agent TEXT NOT NULL,
  clearance INTEGER NOT NULL,
  text TEXT NOT NULL,
  author TEXT NOT NULL,
  made TEXT NOT NULL,
  source TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (agent, clearance)
)
 WITHOUT ROWID;
CREATE TABLE responsibilities (
  agent TEXT NOT NULL,
  title TEXT NOT NULL,
  content TEXT NOT NULL,
  user_id TEXT NOT NULL,
  added TEXT NOT NULL,
  PRIMARY KEY (agent, title)
)
 WITHOUT ROWID;
CREATE TABLE ledgers (
  session_id TEXT NOT NULL,
  base TEXT NOT NULL,
  frozen TEXT NOT NULL,
  PRIMARY KEY (session_id)
)
 WITHOUT ROWID;
CREATE TABLE bases (
  name TEXT NOT NULL,
  lines TEXT NOT NULL,
  PRIMARY KEY (name)
)
 WITHOUT ROWID;
CREATE TABLE edits (
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  policy TEXT NOT NULL,
  decided TEXT NOT NULL,
  PRIMARY KEY (path)
)
 WITHOUT ROWID;
CREATE TABLE calibrations (
  model TEXT NOT NULL,
  calls INTEGER NOT NULL,
  ratio DOUBLE NOT NULL,
  raw DOUBLE NOT NULL,
  error DOUBLE NOT NULL,
  PRIMARY KEY (model)
)
 WITHOUT ROWID;
CREATE TABLE held_calls (
  id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT NOT NULL,
  arguments TEXT NOT NULL,
  question TEXT NOT NULL,
  state TEXT NOT NULL,
  created TEXT NOT NULL,
  expires DOUBLE NOT NULL,
  decided TEXT,
  run_id TEXT,
  result TEXT,
  PRIMARY KEY (id)
);
CREATE INDEX idx_archives_user ON archives (user_id);
CREATE INDEX idx_held_calls_expires ON held_calls (state, expires);
CREATE UNIQUE INDEX idx_held_calls_turn ON held_calls (turn_id, call_id);
CREATE INDEX idx_held_calls_user ON held_calls (user_id, state);
CREATE INDEX idx_history_beginning ON history (beginning) WHERE beginning IS NOT NULL;
CREATE INDEX idx_history_turn ON history (turn_id);
CREATE INDEX idx_identities_user ON identities (user_id);
CREATE INDEX idx_ledgers_base ON ledgers (base);
CREATE INDEX idx_outbox_due ON outbox (state, due);
CREATE INDEX idx_outbox_turn ON outbox (turn_id);
CREATE INDEX idx_overheard_room ON overheard (channel, room, id);
CREATE INDEX idx_overheard_user ON overheard (user_id);
CREATE INDEX idx_pairings_user ON pairings (user_id);
CREATE INDEX idx_plans_session ON plans (session_id, id);
CREATE INDEX idx_schedules_due ON schedules (state, due);
CREATE INDEX idx_schedules_user ON schedules (user_id);
CREATE UNIQUE INDEX idx_sessions_current ON sessions (agent, channel, room, clearance, user_id) WHERE current = 1;
CREATE INDEX idx_sessions_place ON sessions (agent, channel, room, clearance, user_id, used);
CREATE INDEX idx_sessions_used ON sessions (used);
CREATE INDEX idx_sessions_user ON sessions (user_id, used);
CREATE INDEX idx_tokens_user ON tokens (user_id);
CREATE INDEX idx_turns_due ON turns (state, due) WHERE finished IS NULL;
CREATE INDEX idx_turns_open ON turns (session_id, number) WHERE finished IS NULL;
CREATE INDEX idx_turns_session ON turns (session_id, number);
CREATE INDEX idx_turns_user ON turns (user_id, received);
INSERT INTO alembic_version (version_num) VALUES ('0007');
