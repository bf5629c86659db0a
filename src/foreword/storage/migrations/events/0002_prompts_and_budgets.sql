-- Sent prompts with each text once, and budgets with spending and reservations.

-- hash: NULL after a part was forgotten, since a hash can confirm a guess.
CREATE TABLE sections (
  id INTEGER NOT NULL,
  hash TEXT,
  text TEXT NOT NULL,
  forgotten INTEGER DEFAULT 0 NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (hash)
);

-- facts: JSON, the lines above and below the table of the turn.
CREATE TABLE prompts (
  id INTEGER NOT NULL,
  hash TEXT NOT NULL,
  first_used TEXT NOT NULL,
  last_used TEXT NOT NULL,
  facts TEXT NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (hash)
);
CREATE INDEX idx_prompts_last_used ON prompts (last_used);

-- kind: text, tools or report.
-- block: number of the block, or of the run for a report.
-- name: the section's id.
CREATE TABLE prompt_pieces (
  prompt_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  kind TEXT NOT NULL,
  block INTEGER NOT NULL,
  name TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  section_id INTEGER NOT NULL,
  PRIMARY KEY (prompt_id, position),
  FOREIGN KEY(prompt_id) REFERENCES prompts (id),
  FOREIGN KEY(section_id) REFERENCES sections (id)
)
 WITHOUT ROWID;
CREATE INDEX idx_prompt_pieces_section ON prompt_pieces (section_id);

-- scope: all, agent, user, channel, schedule or turn.
-- name: the name in the scope; empty for all, the trace id for a turn.
-- period: 2026-11-16, 2026-11, or empty for a turn.
CREATE TABLE budget_spent (
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  period TEXT NOT NULL,
  usd FLOAT NOT NULL,
  calls INTEGER NOT NULL,
  warned INTEGER DEFAULT 0 NOT NULL,
  updated TEXT NOT NULL,
  PRIMARY KEY (scope, name, period)
)
 WITHOUT ROWID;
CREATE INDEX idx_budget_spent_updated ON budget_spent (updated);

-- reservation: the id of one call.
CREATE TABLE budget_reserved (
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  period TEXT NOT NULL,
  reservation TEXT NOT NULL,
  usd FLOAT NOT NULL,
  made TEXT NOT NULL,
  PRIMARY KEY (scope, name, period, reservation)
)
 WITHOUT ROWID;
CREATE INDEX idx_budget_reserved_reservation ON budget_reserved (reservation);
