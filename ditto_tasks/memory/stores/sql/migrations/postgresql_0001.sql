-- Records. "words" is the index of the spelled text and "folded" the plain text for substring search.
-- JSON and not JSONB: the latter refuses NUL and lone surrogates. Text that is compared sorts by code point.
CREATE TABLE {table} (
    id TEXT COLLATE "C" PRIMARY KEY,
    namespace TEXT COLLATE "C" NOT NULL,
    memory_key TEXT COLLATE "C",
    content JSON NOT NULL,
    metadata JSON,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    folded TEXT NOT NULL,
    words TSVECTOR NOT NULL,
    UNIQUE (namespace, memory_key)
);
CREATE INDEX {table}_by_namespace ON {table} (namespace, id);
CREATE INDEX {table}_words ON {table} USING gin (words);

-- What filters ask about metadata, as text that sorts as the value does.
CREATE TABLE {table}_facets (
    namespace TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    memory_id TEXT COLLATE "C" NOT NULL REFERENCES {table} (id) ON DELETE CASCADE,
    PRIMARY KEY (namespace, path, value, memory_id)
);
CREATE INDEX {table}_facets_by_memory ON {table}_facets (memory_id);

-- WRITE operations that were committed, so that a redelivered one answers the same records.
CREATE TABLE {table}_operations (
    namespace TEXT COLLATE "C" NOT NULL,
    operation_id TEXT COLLATE "C" NOT NULL,
    input_hash TEXT NOT NULL,
    ids TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, operation_id)
);
CREATE INDEX {table}_operations_by_age ON {table}_operations (created_at);
