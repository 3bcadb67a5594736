-- Version 1 of the case database; docs/case-database.md says what stands in it.

CREATE TABLE volumes (
    id INTEGER PRIMARY KEY,
    image TEXT NOT NULL,
    host TEXT,
    locator TEXT NOT NULL,
    uuid TEXT,
    label TEXT
);

CREATE TABLE imports (
    volume_id INTEGER PRIMARY KEY REFERENCES volumes (id),
    job TEXT NOT NULL,
    hashes TEXT,
    signs TEXT
);

CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO state VALUES ('is_fresh', 1);

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    state TEXT NOT NULL,
    grade TEXT,
    path TEXT NOT NULL,
    path_bytes BLOB,
    name TEXT,
    path_known INTEGER NOT NULL,
    path_ground TEXT,
    type TEXT,
    mode INTEGER,
    permissions TEXT,
    inode INTEGER,
    generation INTEGER,
    uid INTEGER,
    gid INTEGER,
    size INTEGER,
    links_count INTEGER,
    atime INTEGER,
    mtime INTEGER,
    ctime INTEGER,
    crtime INTEGER,
    dtime INTEGER,
    last_seen_transaction INTEGER,
    last_seen_time INTEGER,
    gone_by_transaction INTEGER,
    gone_by_time INTEGER,
    target TEXT,
    target_bytes BLOB,
    blocks INTEGER,
    blocks_reused INTEGER,
    first_block INTEGER,
    mime TEXT,
    md5 TEXT,
    sha1 TEXT,
    sha256 TEXT,
    sources TEXT,
    problems TEXT,
    deleted_at INTEGER,
    deleted_at_ground TEXT
);

CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    state TEXT NOT NULL,
    grade TEXT,
    path TEXT NOT NULL,
    path_bytes BLOB,
    name TEXT,
    path_known INTEGER NOT NULL,
    path_ground TEXT,
    type TEXT,
    mode INTEGER,
    permissions TEXT,
    inode INTEGER,
    generation INTEGER,
    uid INTEGER,
    gid INTEGER,
    size INTEGER,
    links_count INTEGER,
    atime INTEGER,
    mtime INTEGER,
    ctime INTEGER,
    crtime INTEGER,
    dtime INTEGER,
    last_seen_transaction INTEGER,
    last_seen_time INTEGER,
    gone_by_transaction INTEGER,
    gone_by_time INTEGER,
    target TEXT,
    target_bytes BLOB,
    blocks INTEGER,
    blocks_reused INTEGER,
    first_block INTEGER,
    mime TEXT,
    md5 TEXT,
    sha1 TEXT,
    sha256 TEXT,
    sources TEXT,
    problems TEXT,
    deleted_at INTEGER,
    deleted_at_ground TEXT
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

-- Derived from one volume, replaced with it.

CREATE TABLE owners (
    uid INTEGER NOT NULL,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    files INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (uid, volume_id)
) WITHOUT ROWID;

CREATE TABLE hours (
    time INTEGER NOT NULL,
    volume_id INTEGER NOT NULL REFERENCES volumes (id),
    what TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (time, volume_id, what)
) WITHOUT ROWID;

-- Derived from all volumes, made by refresh.sql.

CREATE TABLE contents (
    sha256 TEXT PRIMARY KEY,
    images INTEGER NOT NULL,
    files INTEGER NOT NULL,
    live INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    only_live_on TEXT,
    first_file INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX contents_images ON contents (images DESC);

CREATE TABLE deleted_but_live (id INTEGER PRIMARY KEY REFERENCES files (id));

CREATE TABLE names (
    name TEXT PRIMARY KEY,
    images INTEGER NOT NULL,
    files INTEGER NOT NULL
) WITHOUT ROWID;

-- Answers to questions. A row has its host and image, so that it can be read without a join. CROSS
-- JOIN from volumes by the range of their ids is quick for one image, too.

CREATE VIEW images AS
    SELECT image, min(nullif(host, '')) AS host, count(*) AS volumes, count(i.volume_id) AS imported
    FROM volumes LEFT JOIN imports i ON i.volume_id = volumes.id GROUP BY image;

CREATE VIEW all_files AS
    SELECT v.image, v.host, f.* FROM files f JOIN volumes v ON v.id = f.volume_id;

CREATE VIEW shared_files AS
    SELECT c.images, c.files, c.live, c.deleted, c.only_live_on, f.size, f.path, c.sha256
    FROM contents c JOIN files f ON f.id = c.first_file;

CREATE VIEW deleted_and_live AS
    SELECT v.image, v.host, v.id AS volume_id, d.id, f.path, f.path_bytes, f.size, f.grade, f.uid,
           f.deleted_at, datetime(f.deleted_at / 1000000000, 'unixepoch') AS deleted_by, f.sha256,
           (SELECT o.image FROM files l JOIN volumes o ON o.id = l.volume_id
            WHERE l.sha256 = f.sha256 AND l.state = 'live' AND o.image <> v.image
            ORDER BY l.id LIMIT 1) AS live_image,
           (SELECT l.path FROM files l JOIN volumes o ON o.id = l.volume_id
            WHERE l.sha256 = f.sha256 AND l.state = 'live' AND o.image <> v.image
            ORDER BY l.id LIMIT 1) AS live_path
    FROM volumes v CROSS JOIN deleted_but_live d ON d.id BETWEEN v.id << 40 AND (v.id + 1 << 40) - 1
    CROSS JOIN files f ON f.id = d.id;

-- CAST gives all parts the same types: only then does SQLite merge their indexes by time.
CREATE VIEW activity AS
    SELECT (SELECT image FROM volumes v WHERE v.id = volume_id) AS image,
           (SELECT host FROM volumes v WHERE v.id = volume_id) AS host,
           time, datetime(time / 1000000000, 'unixepoch') AS utc, volume_id, kind AS what,
           path, path_bytes, inode, uid, CAST('journal' AS TEXT) AS source
    FROM events WHERE time IS NOT NULL
    UNION ALL SELECT (SELECT image FROM volumes v WHERE v.id = volume_id),
           (SELECT host FROM volumes v WHERE v.id = volume_id),
           mtime, datetime(mtime / 1000000000, 'unixepoch'), volume_id,
           CAST('content modified' AS TEXT), path, path_bytes, inode, uid, state
    FROM files WHERE mtime IS NOT NULL
    UNION ALL SELECT (SELECT image FROM volumes v WHERE v.id = volume_id),
           (SELECT host FROM volumes v WHERE v.id = volume_id),
           atime, datetime(atime / 1000000000, 'unixepoch'), volume_id,
           CAST('accessed' AS TEXT), path, path_bytes, inode, uid, state
    FROM files WHERE atime IS NOT NULL
    UNION ALL SELECT (SELECT image FROM volumes v WHERE v.id = volume_id),
           (SELECT host FROM volumes v WHERE v.id = volume_id),
           ctime, datetime(ctime / 1000000000, 'unixepoch'), volume_id,
           CAST('metadata changed' AS TEXT), path, path_bytes, inode, uid, state
    FROM files WHERE ctime IS NOT NULL
    UNION ALL SELECT (SELECT image FROM volumes v WHERE v.id = volume_id),
           (SELECT host FROM volumes v WHERE v.id = volume_id),
           crtime, datetime(crtime / 1000000000, 'unixepoch'), volume_id,
           CAST('created' AS TEXT), path, path_bytes, inode, uid, state
    FROM files WHERE crtime IS NOT NULL
    UNION ALL SELECT (SELECT image FROM volumes v WHERE v.id = volume_id),
           (SELECT host FROM volumes v WHERE v.id = volume_id),
           dtime, datetime(dtime / 1000000000, 'unixepoch'), volume_id,
           CAST('deleted' AS TEXT), path, path_bytes, inode, uid, state
    FROM files WHERE dtime IS NOT NULL;

CREATE VIEW activity_by_hour AS
    SELECT h.time, datetime(h.time / 1000000000, 'unixepoch') AS utc, v.image, v.host, h.volume_id,
           h.what, h.count
    FROM hours h JOIN volumes v ON v.id = h.volume_id;

CREATE VIEW files_by_owner AS
    SELECT f.uid, v.image, v.host, v.id AS volume_id, f.id, f.state, f.grade, f.path, f.path_bytes,
           f.type, f.permissions, f.gid, f.inode, f.size, f.mtime,
           datetime(f.mtime / 1000000000, 'unixepoch') AS modified, f.sha256
    FROM volumes v CROSS JOIN files f ON f.id BETWEEN v.id << 40 AND (v.id + 1 << 40) - 1;

CREATE VIEW owners_by_volume AS
    SELECT o.uid, v.image, v.host, o.volume_id, o.files, o.deleted, o.bytes
    FROM owners o JOIN volumes v ON v.id = o.volume_id;

CREATE VIEW shared_signs AS
    SELECT count(DISTINCT v.image) AS images, count(*) AS sightings, s.code, s.weight, s.title,
           s.path, min(s.time) AS first_time, max(s.time) AS last_time
    FROM signs s JOIN volumes v ON v.id = s.volume_id GROUP BY s.code, s.path;

CREATE VIEW not_read AS
    SELECT v.image, v.host, v.id AS volume_id, 'error' AS severity, 'volume' AS place,
           'not imported' AS meaning
    FROM volumes v WHERE NOT EXISTS (SELECT 1 FROM imports i WHERE i.volume_id = v.id)
    UNION ALL SELECT v.image, v.host, v.id, 'warning', 'signs', i.signs
    FROM imports i JOIN volumes v ON v.id = i.volume_id WHERE i.signs <> 'searched'
    UNION ALL SELECT v.image, v.host, v.id, p.severity, p.place, p.meaning
    FROM findings p JOIN volumes v ON v.id = p.volume_id WHERE p.source = 'reading';

PRAGMA application_id = 1702376547;
PRAGMA user_version = 1;
