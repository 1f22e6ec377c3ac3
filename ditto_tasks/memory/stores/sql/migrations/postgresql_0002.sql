-- Who was erased and when: a late WRITE for them is refused.
CREATE TABLE {table}_tombstones (
    name TEXT COLLATE "C" PRIMARY KEY,
    erased_at BIGINT NOT NULL
);
