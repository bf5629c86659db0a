-- Soul and identity of agents, and instructions of users: the tables of SPEC-010.
-- foreword.storage.migration renames existing tables of these names first, and then imports their rows.

-- identity: JSON with name, vibe and description.
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
  updated TEXT DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT uq_user_agent_instructions UNIQUE (user_id, agent_name)
);
