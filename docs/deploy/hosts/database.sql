-- Once, at the primary: the role of the service, its database, and the settings that pgbouncer does not hand on (see pgbouncer.ini).
create role saga login password '${PASSWORD}';
alter role saga set synchronous_commit = on;
-- Also for the statements of a migration, which has none where pgbouncer is not in between: for a large database start the first upgraded service with
-- port 5000 in DATABASE_URL.
alter role saga set statement_timeout = '30s';
alter role saga set lock_timeout = '5s';
alter role saga set idle_in_transaction_session_timeout = '10s';
alter role saga set enable_seqscan = off;
alter role saga set enable_mergejoin = off;
alter role saga set jit = off;
-- Reads of clients, with access control.
create role saga_reads login password '${PASSWORD}';
create role saga_reader;
create role saga_platform_reader;
grant saga_reader, saga_platform_reader to saga_reads;
create database saga owner saga encoding 'UTF8' template template0;
