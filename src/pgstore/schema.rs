//! The tables, and their migration.

/// The version that this program writes.
pub(crate) const VERSION: i32 = 2;

/// The SQLSTATE with which the server refuses a commit of a controller that does not lead.
pub(crate) const NOT_LEADING: &str = "LL001";

/// Where the version is found; without the table there is none.
pub(crate) const HAS_VERSION: &str = "SELECT to_regclass('version') IS NOT NULL";
pub(crate) const GET_VERSION: &str = "SELECT number FROM version";

/// One script for each version, applied to the previous one.
pub(crate) const MIGRATIONS: [&str; VERSION as usize] = [
    "
    CREATE TABLE version (number integer NOT NULL);
    INSERT INTO version VALUES (1);
    CREATE TABLE leader (
        one       boolean PRIMARY KEY DEFAULT true CHECK (one),
        service   bigint NOT NULL,      -- of the queue, as agents know it
        epoch     bigint NOT NULL,      -- one more with each controller that begins to lead
        commits   bigint NOT NULL,      -- one more with each commit, also across epochs
        owner     text NOT NULL,        -- the home of the controller, and its machine
        address   text NOT NULL,        -- where it serves
        since     timestamptz NOT NULL,
        until     timestamptz NOT NULL  -- the end of its lease
    ) WITH (fillfactor = 20);
    CREATE TABLE standbys (
        owner text PRIMARY KEY,         -- a home that waits to lead, and its machine
        since timestamptz NOT NULL,
        seen  timestamptz NOT NULL      -- when it has said so last
    );
    CREATE TABLE tasks (
        micros       bigint PRIMARY KEY, -- the time in the id, in microseconds: the order of submission
        id           text NOT NULL,
        status       text NOT NULL,
        operation    text NOT NULL,
        round        bigint NOT NULL,
        submitted_at bigint NOT NULL,    -- microseconds since 1970
        submitted    text NOT NULL,      -- what the client sent, as JSON
        state        text NOT NULL,      -- everything else, as JSON
        checksum     bigint NOT NULL
    ) WITH (fillfactor = 80);
    CREATE TABLE settings (
        kind     text NOT NULL, -- gate, drained or job
        name     text NOT NULL, -- of the gate, the agent or the job
        value    text NOT NULL, -- as JSON
        checksum bigint NOT NULL,
        PRIMARY KEY (kind, name)
    );
    CREATE TABLE graphs (
        micros       bigint PRIMARY KEY, -- the time in the id, in microseconds: the order of submission
        id           text NOT NULL,
        submitted_at bigint NOT NULL,    -- microseconds since 1970
        submitted    text NOT NULL,      -- the fields beside the document, as JSON
        terms        text NOT NULL,      -- the limits and defaults that it was accepted with, as JSON
        document     text NOT NULL,      -- as the client sent it
        checksum     bigint NOT NULL
    );
    CREATE TABLE graph_entries (
        graph    bigint NOT NULL, -- graphs.micros
        number   bigint NOT NULL, -- from 1, in the order of the events
        entry    text NOT NULL,   -- as JSON
        checksum bigint NOT NULL,
        PRIMARY KEY (graph, number)
    );
    CREATE FUNCTION lead_on(my_epoch bigint, my_commits bigint, lease_ms bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE leader SET commits = commits + 1, until = clock_timestamp() + lease_ms * interval '1 millisecond'
        WHERE epoch = my_epoch AND commits = my_commits;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'epoch % at commit % does not lead', my_epoch, my_commits USING ERRCODE = 'LL001';
        END IF;
        RETURN (SELECT count(*) FROM standbys WHERE seen > clock_timestamp() - interval '5 seconds');
    END $$;
",
    "
    CREATE TABLE files (
        digest text PRIMARY KEY, -- SHA-256 of an archive of a tool, or of a file of a task
        bytes  bigint NOT NULL
    );
    CREATE TABLE file_parts (
        digest text NOT NULL,    -- of a file that is in files, or arrives
        number bigint NOT NULL,  -- from 0
        part   bytea NOT NULL,
        PRIMARY KEY (digest, number)
    );
    -- Archives are packed already.
    ALTER TABLE file_parts ALTER COLUMN part SET STORAGE EXTERNAL;
    CREATE TABLE tool_log (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        line   text NOT NULL     -- a change of what the name of a tool stands for, as JSON
    );
",
];

pub(crate) const LEAD_ON: &str = "SELECT lead_on($1, $2, $3)";

pub(crate) const GET_LEADER: &str = "
    SELECT service, epoch, commits, owner, address, (extract(epoch FROM since) * 1000000)::bigint,
        (extract(epoch FROM until - clock_timestamp()) * 1000)::bigint
    FROM leader
";

pub(crate) const FIRST_LEADER: &str = "
    INSERT INTO leader (service, epoch, commits, owner, address, since, until)
    VALUES ($1, $2, 0, $3, $4, clock_timestamp(), clock_timestamp() + $5::bigint * interval '1 millisecond')
    ON CONFLICT DO NOTHING
";

pub(crate) const NEXT_LEADER: &str = "
    UPDATE leader SET epoch = $1, commits = commits + 1, owner = $2, address = $3, since = clock_timestamp(),
        until = clock_timestamp() + $4::bigint * interval '1 millisecond'
    WHERE epoch = $5 AND (until <= clock_timestamp() OR owner = $2)
";

/// The owner of a queue that was copied.
pub(crate) const MOVED: &str = "a copy moved";

pub(crate) const MOVE: &str = "
    UPDATE leader SET commits = commits + 1, owner = 'a copy moved', address = $1, until = clock_timestamp() + interval '1000 years'
    WHERE epoch = $2
";

pub(crate) const STAND_BY: &str = "
    INSERT INTO standbys VALUES ($1, clock_timestamp(), clock_timestamp())
    ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen,
        since = CASE WHEN standbys.seen < clock_timestamp() - interval '5 seconds' THEN excluded.since ELSE standbys.since END
";

pub(crate) const STAND_BY_NO_MORE: &str = "DELETE FROM standbys WHERE owner = $1";

pub(crate) const GET_STANDBYS: &str =
    "SELECT owner FROM standbys WHERE seen > clock_timestamp() - interval '5 seconds' ORDER BY since";

pub(crate) const SET_ADDRESS: &str = "UPDATE leader SET address = $1 WHERE epoch = $2";

pub(crate) const RENEW: &str =
    "UPDATE leader SET until = clock_timestamp() + $1::bigint * interval '1 millisecond' WHERE epoch = $2";

pub(crate) const RESIGN: &str = "UPDATE leader SET until = clock_timestamp() WHERE epoch = $1";

pub(crate) const PUT_TASKS: &str = "
    INSERT INTO tasks SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
        $7::text[], $8::text[], $9::bigint[])
    ON CONFLICT (micros) DO UPDATE SET
        status = excluded.status, round = excluded.round, state = excluded.state, checksum = excluded.checksum
";

pub(crate) const REMOVE_TASKS: &str = "DELETE FROM tasks WHERE micros = ANY($1::bigint[])";

pub(crate) const SET: &str = "
    INSERT INTO settings SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum
";

pub(crate) const UNSET: &str = "DELETE FROM settings USING unnest($1::text[], $2::text[]) AS gone(kind, name)
    WHERE settings.kind = gone.kind AND settings.name = gone.name";

pub(crate) const PUT_GRAPHS: &str = "
    INSERT INTO graphs SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
        $7::bigint[])
    ON CONFLICT (micros) DO UPDATE SET submitted_at = excluded.submitted_at, submitted = excluded.submitted,
        terms = excluded.terms, document = excluded.document, checksum = excluded.checksum
";

pub(crate) const PUT_ENTRIES: &str = "
    INSERT INTO graph_entries SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
    ON CONFLICT (graph, number) DO UPDATE SET entry = excluded.entry, checksum = excluded.checksum
";

pub(crate) const REMOVE_GRAPHS: &str = "
    WITH gone AS (DELETE FROM graph_entries WHERE graph = ANY($1::bigint[]))
    DELETE FROM graphs WHERE micros = ANY($1::bigint[])
";

/// The statements of commits.
pub(crate) const OF_COMMITS: [&str; 8] =
    [LEAD_ON, PUT_TASKS, REMOVE_TASKS, SET, UNSET, PUT_GRAPHS, PUT_ENTRIES, REMOVE_GRAPHS];

pub(crate) const GET_TASKS: &str =
    "SELECT micros, id, status, operation, round, submitted_at, submitted, state, checksum FROM tasks ORDER BY micros";

pub(crate) const IS_EMPTY: &str =
    "SELECT NOT (EXISTS (SELECT FROM tasks) OR EXISTS (SELECT FROM settings) OR EXISTS (SELECT FROM graphs))";

pub(crate) const GET_SETTINGS: &str = "SELECT kind, name, value, checksum FROM settings ORDER BY kind, name";

pub(crate) const GET_GRAPHS: &str =
    "SELECT micros, id, submitted_at, submitted, terms, document, checksum FROM graphs ORDER BY micros";

pub(crate) const GET_ENTRIES: &str = "SELECT graph, number, entry, checksum FROM graph_entries ORDER BY graph, number";

pub(crate) const GET_FILES: &str = "SELECT digest, bytes FROM files";

pub(crate) const PUT_PART: &str = "
    INSERT INTO file_parts VALUES ($1, $2, $3) ON CONFLICT (digest, number) DO UPDATE SET part = excluded.part
";

pub(crate) const PUT_FILE: &str = "
    INSERT INTO files SELECT $1::text, $2::bigint WHERE (SELECT count(*) FROM file_parts WHERE digest = $1) = $3
    ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes
";

pub(crate) const GET_PART: &str = "SELECT part FROM file_parts WHERE digest = $1 AND number = $2";

pub(crate) const REMOVE_FILE: &str = "
    WITH leads AS (SELECT FROM leader WHERE epoch = $1 FOR SHARE),
        gone AS (DELETE FROM files WHERE digest = $2 AND EXISTS (SELECT FROM leads)),
        gone_parts AS (DELETE FROM file_parts WHERE digest = $2 AND EXISTS (SELECT FROM leads))
    SELECT EXISTS (SELECT FROM leads)
";

pub(crate) const REMOVE_LOOSE_PARTS: &str =
    "DELETE FROM file_parts WHERE NOT EXISTS (SELECT FROM files WHERE files.digest = file_parts.digest)";

pub(crate) const GET_TOOL_LOG: &str = "SELECT line FROM tool_log ORDER BY number";

pub(crate) const ADD_TO_TOOL_LOG: &str =
    "INSERT INTO tool_log (line) SELECT $1::text FROM (SELECT FROM leader WHERE epoch = $2 FOR SHARE) AS leads";
