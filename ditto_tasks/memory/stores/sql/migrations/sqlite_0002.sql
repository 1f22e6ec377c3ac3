-- Who was erased and when: a late WRITE for them is refused.
CREATE TABLE {table}_tombstones (
    name TEXT PRIMARY KEY,
    erased_at INTEGER NOT NULL
) WITHOUT ROWID;
