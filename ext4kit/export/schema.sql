-- Tables of a case database; docs/formats.md says what stands in them.

PRAGMA user_version = 2; -- raised when a table or column changes its name or meaning; not by a new column

CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE volumes (
    id INTEGER PRIMARY KEY,
    parent INTEGER REFERENCES volumes (id),
    byte_offset INTEGER NOT NULL,
    size INTEGER NOT NULL,
    readable INTEGER NOT NULL,
    kind TEXT NOT NULL,
    label TEXT,
    uuid TEXT,
    scheme TEXT,
    description TEXT,
    exported INTEGER NOT NULL
);

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    -- columns of a file
);

CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    -- columns of a file
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    time INTEGER,
    transaction_id INTEGER,
    exact INTEGER NOT NULL,
    kind TEXT NOT NULL,
    inode INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    uid INTEGER,
    path TEXT,
    path_bytes BLOB,
    old_path TEXT,
    old_path_bytes BLOB,
    old TEXT,
    new TEXT,
    reason TEXT,
    seen TEXT
);

CREATE TABLE findings (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    source TEXT NOT NULL,
    severity TEXT NOT NULL,
    code TEXT,
    place TEXT NOT NULL,
    inode INTEGER,
    group_number INTEGER,
    block INTEGER,
    byte INTEGER,
    read TEXT,
    expected TEXT,
    meaning TEXT NOT NULL
);

CREATE TABLE signs (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    code TEXT NOT NULL,
    weight TEXT NOT NULL,
    title TEXT NOT NULL,
    reason TEXT NOT NULL,
    path TEXT,
    path_bytes BLOB,
    inode INTEGER,
    generation INTEGER,
    time INTEGER,
    seen TEXT NOT NULL,
    size INTEGER,
    mode INTEGER,
    grade TEXT,
    note TEXT
);

CREATE VIEW deleted_files AS
    SELECT id, grade, path, type, inode, size,
           datetime(mtime / 1000000000, 'unixepoch') AS modified,
           datetime(deleted_at / 1000000000, 'unixepoch') AS deleted_by,
           blocks, blocks_reused, problems, deleted_at_ground, permissions, uid, gid, mime,
           md5, sha1, sha256
    FROM files WHERE state = 'deleted';

CREATE VIEW deleted_by_grade AS
    SELECT grade, count(*) AS files, sum(size) AS bytes FROM files
    WHERE state = 'deleted' GROUP BY grade;

CREATE VIEW timeline AS
    SELECT time, datetime(time / 1000000000, 'unixepoch') AS utc, kind AS what, path, inode, 'journal' AS source
    FROM events WHERE time IS NOT NULL
    UNION ALL SELECT mtime, datetime(mtime / 1000000000, 'unixepoch'), 'content modified', path, inode, state
    FROM files WHERE mtime IS NOT NULL
    UNION ALL SELECT atime, datetime(atime / 1000000000, 'unixepoch'), 'accessed', path, inode, state
    FROM files WHERE atime IS NOT NULL
    UNION ALL SELECT ctime, datetime(ctime / 1000000000, 'unixepoch'), 'metadata changed', path, inode, state
    FROM files WHERE ctime IS NOT NULL
    UNION ALL SELECT crtime, datetime(crtime / 1000000000, 'unixepoch'), 'created', path, inode, state
    FROM files WHERE crtime IS NOT NULL
    UNION ALL SELECT dtime, datetime(dtime / 1000000000, 'unixepoch'), 'deleted', path, inode, state
    FROM files WHERE dtime IS NOT NULL;
