-- The working directory of a session.

ALTER TABLE sessions ADD COLUMN project TEXT DEFAULT '' NOT NULL;
