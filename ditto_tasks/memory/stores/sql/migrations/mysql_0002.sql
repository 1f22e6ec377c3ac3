-- Who was erased and when: a late WRITE for them is refused.
CREATE TABLE {table}_tombstones (
    name VARCHAR(256) PRIMARY KEY,
    erased_at BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE {collation};
