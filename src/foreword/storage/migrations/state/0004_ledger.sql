-- Ledgers of sessions, decisions about edits, and calibrations.

-- base: name of the stable prefix that was sent.
-- frozen: JSON, everything else that was sent.
CREATE TABLE ledgers (
  session_id TEXT NOT NULL,
  base TEXT NOT NULL,
  frozen TEXT NOT NULL,
  PRIMARY KEY (session_id)
)
 WITHOUT ROWID;
CREATE INDEX idx_ledgers_base ON ledgers (base);

-- name: hash of its lines.
-- lines: JSON.
CREATE TABLE bases (
  name TEXT NOT NULL,
  lines TEXT NOT NULL,
  PRIMARY KEY (name)
)
 WITHOUT ROWID;

-- path: of a file in the workspace.
-- sha256: of the decided text; a different text is a different edit.
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
