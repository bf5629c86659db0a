-- A general outbox, and tables of people, schedules, archives and session state.
-- clearance: that at which something was learned or made (laws 12 and 13).

DROP INDEX idx_outbox_due;
ALTER TABLE outbox RENAME TO old_outbox;

-- key: unique per message, however often it is posted.
-- turn_id: the turn that the message answers or comes from.
-- part: number of delivered parts.
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
INSERT INTO outbox
  (id, key, turn_id, channel, address, text, state, attempt, due, lease_until, lease_owner, sent)
  SELECT id, turn_id, turn_id, channel, address, text, state, attempt, due, lease_until, lease_owner, sent
  FROM old_outbox;
DROP TABLE old_outbox;
CREATE INDEX idx_outbox_due ON outbox (state, due);
CREATE INDEX idx_outbox_turn ON outbox (turn_id);

-- overheard: id of the newest overheard message shown.
ALTER TABLE sessions ADD COLUMN overheard INTEGER DEFAULT 0 NOT NULL;

-- Channels over HTTP become one family.
UPDATE sessions SET channel = 'web' WHERE channel = 'api';
UPDATE turns SET channel = 'web' WHERE channel = 'api';
UPDATE sessions SET channel = 'web:openai' WHERE channel = 'openai';
UPDATE turns SET channel = 'web:openai' WHERE channel = 'openai';

-- Earlier instructions were readable at familiar.
ALTER TABLE user_agent_prompt_customizations ADD COLUMN clearance INTEGER DEFAULT 1 NOT NULL;

-- identity: channel:id.
CREATE TABLE identities (
  identity TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  paired TEXT NOT NULL,
  PRIMARY KEY (identity)
);
CREATE INDEX idx_identities_user ON identities (user_id);

CREATE TABLE pairings (
  hash TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created TEXT NOT NULL,
  expires TEXT NOT NULL,
  PRIMARY KEY (hash)
);
CREATE INDEX idx_pairings_user ON pairings (user_id);

-- key: the channel's id of the message.
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
CREATE INDEX idx_overheard_room ON overheard (channel, room, id);
CREATE INDEX idx_overheard_user ON overheard (user_id);

-- origin: the configuration, a person, or the agent on its user's behalf.
-- user_id: the user it acts as.
-- kind: cron, at or heartbeat.
-- moment: the cron expression, or the time.
-- channel, address: target of the reply.
-- missed: policy for runs missed during a downtime.
-- ran: time up to which all runs are handled.
-- note: why the last run failed to start.
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
CREATE INDEX idx_schedules_due ON schedules (state, due);
CREATE INDEX idx_schedules_user ON schedules (user_id);

-- path: in the workspace.
-- user_id: empty in a room.
-- people: JSON, the speakers.
-- upto: last position of the history in the file.
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
CREATE INDEX idx_archives_user ON archives (user_id);

CREATE TABLE workflows (
  session_id TEXT NOT NULL,
  text TEXT NOT NULL,
  updated TEXT NOT NULL,
  PRIMARY KEY (session_id)
)
 WITHOUT ROWID;

-- learned: JSON.
CREATE TABLE profiles (
  user_id TEXT NOT NULL,
  clearance INTEGER NOT NULL,
  learned TEXT NOT NULL,
  messages INTEGER DEFAULT 0 NOT NULL,
  updated TEXT NOT NULL,
  PRIMARY KEY (user_id, clearance)
)
 WITHOUT ROWID;

-- author: the model, or the rule.
-- source: hash of its input.
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
