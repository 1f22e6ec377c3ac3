-- Records. "words" is the spelled index text and "folded" the plain text for substring search.
-- JSON is LONGTEXT: MySQL's JSON type rounds integers. No collation that pads: "a" and "a " are two names.
CREATE TABLE {table} (
    id VARCHAR(36) PRIMARY KEY,
    namespace VARCHAR(128) NOT NULL,
    memory_key VARCHAR(512),
    content LONGTEXT NOT NULL,
    metadata LONGTEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    folded LONGTEXT NOT NULL,
    words LONGTEXT NOT NULL,
    UNIQUE KEY {table}_by_key (namespace, memory_key),
    KEY {table}_by_namespace (namespace, id),
    FULLTEXT KEY {table}_words (words)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- What filters ask about metadata, as text that sorts as the value does.
CREATE TABLE {table}_facets (
    namespace VARCHAR(128) NOT NULL,
    path VARCHAR(160) NOT NULL,
    value VARCHAR(160) NOT NULL,
    memory_id VARCHAR(36) NOT NULL,
    PRIMARY KEY (namespace, path, value, memory_id),
    KEY {table}_facets_by_memory (memory_id),
    FOREIGN KEY (memory_id) REFERENCES {table} (id) ON DELETE CASCADE
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};

-- WRITE operations that were committed, so that a redelivered one answers the same records.
CREATE TABLE {table}_operations (
    namespace VARCHAR(128) NOT NULL,
    operation_id VARCHAR(128) NOT NULL,
    input_hash VARCHAR(64) NOT NULL,
    ids LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, operation_id),
    KEY {table}_operations_by_age (created_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
