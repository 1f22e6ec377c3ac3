-- Records. "words" is the spelled index text and "folded" the plain text for substring search.
-- The JSON columns are TEXT: a column of type JSON has numeric affinity, which rounds a content such as 2**70.
CREATE TABLE {table} (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    memory_key TEXT,
    content TEXT NOT NULL,
    metadata TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    folded TEXT NOT NULL,
    words TEXT NOT NULL,
    UNIQUE (namespace, memory_key)
);
CREATE INDEX {table}_by_namespace ON {table} (namespace, id);

-- What filters ask about metadata, as text that sorts as the value does.
CREATE TABLE {table}_facets (
    namespace TEXT NOT NULL,
    path TEXT NOT NULL,
    value TEXT NOT NULL,
    memory_id TEXT NOT NULL REFERENCES {table} (id) ON DELETE CASCADE,
    PRIMARY KEY (namespace, path, value, memory_id)
) WITHOUT ROWID;
CREATE INDEX {table}_facets_by_memory ON {table}_facets (memory_id);

-- WRITE operations that were committed, so that a redelivered one answers the same records.
CREATE TABLE {table}_operations (
    namespace TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    ids TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, operation_id)
) WITHOUT ROWID;
CREATE INDEX {table}_operations_by_age ON {table}_operations (created_at);

CREATE VIRTUAL TABLE {table}_words USING fts5 (words, content='{table}', content_rowid='seq', tokenize='ascii');
-- In how many records each word is.
CREATE VIRTUAL TABLE {table}_vocabulary USING fts5vocab ('{table}_words', 'row');
CREATE TRIGGER {table}_words_insert AFTER INSERT ON {table} BEGIN
    INSERT INTO {table}_words (rowid, words) VALUES (new.seq, new.words);
END;
CREATE TRIGGER {table}_words_delete AFTER DELETE ON {table} BEGIN
    INSERT INTO {table}_words ({table}_words, rowid, words) VALUES ('delete', old.seq, old.words);
END;
CREATE TRIGGER {table}_words_update AFTER UPDATE OF words ON {table} BEGIN
    INSERT INTO {table}_words ({table}_words, rowid, words) VALUES ('delete', old.seq, old.words);
    INSERT INTO {table}_words (rowid, words) VALUES (new.seq, new.words);
END;
