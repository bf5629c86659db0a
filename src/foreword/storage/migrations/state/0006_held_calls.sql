-- Held calls: tool calls that need a person's approval.

-- turn_id, call_id: the turn that made the call, and the id of the call in it.
-- arguments: JSON.
-- question: the call as shown to a person.
-- run_id: the turn that runs it.
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
CREATE UNIQUE INDEX idx_held_calls_turn ON held_calls (turn_id, call_id);
CREATE INDEX idx_held_calls_expires ON held_calls (state, expires);
CREATE INDEX idx_held_calls_user ON held_calls (user_id, state);
