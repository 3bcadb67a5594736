-- Run in one transaction after imports. The indexes are made once; later imports keep them.

CREATE INDEX IF NOT EXISTS files_sha256 ON files (sha256, state) WHERE sha256 IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_name ON files (name) WHERE name IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_uid ON files (uid) WHERE uid IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_mtime ON files (mtime) WHERE mtime IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_atime ON files (atime) WHERE atime IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_ctime ON files (ctime) WHERE ctime IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_crtime ON files (crtime) WHERE crtime IS NOT NULL;
CREATE INDEX IF NOT EXISTS files_dtime ON files (dtime) WHERE dtime IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_time ON events (time) WHERE time IS NOT NULL;
CREATE INDEX IF NOT EXISTS signs_code ON signs (code, path);
CREATE INDEX IF NOT EXISTS findings_source ON findings (source);

CREATE TEMP TABLE numbered AS
    SELECT id, image, dense_rank() OVER (ORDER BY image) AS number FROM main.volumes;
CREATE UNIQUE INDEX temp.numbered_id ON numbered (id, number);
CREATE INDEX temp.numbered_number ON numbered (number, image);

-- The hash of nothing is left out: empty files are everywhere.
DELETE FROM contents;
INSERT INTO contents
    SELECT sha256, images, files, live, files - live,
           CASE WHEN first_live = last_live
                THEN (SELECT image FROM temp.numbered WHERE number = first_live) END,
           first_file
    FROM (SELECT f.sha256, count(DISTINCT n.number) AS images, count(*) AS files,
                 sum(f.state = 'live') AS live,
                 min(CASE f.state WHEN 'live' THEN n.number END) AS first_live,
                 max(CASE f.state WHEN 'live' THEN n.number END) AS last_live,
                 min(f.id) AS first_file
          FROM files f INDEXED BY files_sha256 CROSS JOIN temp.numbered n ON n.id = f.id >> 40
          WHERE f.sha256 IS NOT NULL
            AND f.sha256 <> 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
          GROUP BY f.sha256 HAVING min(n.number) <> max(n.number));

DELETE FROM deleted_but_live;
INSERT INTO deleted_but_live
    SELECT f.id FROM contents c
    CROSS JOIN files f INDEXED BY files_sha256 ON f.sha256 = c.sha256 AND f.state = 'deleted'
    CROSS JOIN temp.numbered n ON n.id = f.id >> 40
    WHERE c.live > 0 AND c.deleted > 0 AND n.image IS NOT c.only_live_on
    ORDER BY f.id;

DELETE FROM names;
INSERT INTO names
    SELECT f.name, count(DISTINCT n.number), count(*)
    FROM files f INDEXED BY files_name CROSS JOIN temp.numbered n ON n.id = f.id >> 40
    WHERE f.name IS NOT NULL GROUP BY f.name;

DROP TABLE temp.numbered;
PRAGMA analysis_limit = 1000;
ANALYZE;
UPDATE state SET value = 1 WHERE key = 'is_fresh';
