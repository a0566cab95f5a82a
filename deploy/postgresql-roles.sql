-- Creates the two databases and the two roles of an instance, and grants the run-time role exactly
-- what it needs. Run it before the first `barograph db upgrade`, and again after every upgrade,
-- because it can grant rights only on tables that exist. Run it as a superuser, or on PostgreSQL 16
-- and newer as a role with CREATEROLE and CREATEDB, which becomes a member of the owner.
--
--   psql -d postgres -f deploy/postgresql-roles.sql
--
-- Other names: -v owner=… -v runtime=… -v service=… -v history=…
-- Set the passwords afterwards, in psql: \password barograph_owner and \password barograph

\set ON_ERROR_STOP on
\if :{?owner} \else \set owner barograph_owner \endif
\if :{?runtime} \else \set runtime barograph \endif
\if :{?service} \else \set service barograph \endif
\if :{?history} \else \set history barograph_history \endif

SELECT format('CREATE ROLE %I LOGIN', name) FROM unnest(ARRAY[:'owner', :'runtime']) AS name
WHERE name NOT IN (SELECT rolname FROM pg_roles) \gexec

SELECT format('GRANT %I TO CURRENT_USER', :'owner')
WHERE NOT pg_has_role(:'owner', 'USAGE') \gexec

SELECT format('CREATE DATABASE %I OWNER %I TEMPLATE template0 ENCODING ''UTF8''', name, :'owner')
FROM unnest(ARRAY[:'service', :'history']) AS name
WHERE name NOT IN (SELECT datname FROM pg_database) \gexec

-- Barograph sets shorter timeouts in each transaction. These apply to statements outside of one.
ALTER ROLE :"runtime" SET statement_timeout = '30s';
ALTER ROLE :"runtime" SET lock_timeout = '10s';
ALTER ROLE :"runtime" SET idle_in_transaction_session_timeout = '10s';

-- Otherwise every role (PUBLIC) may connect and create temporary tables.
REVOKE ALL ON DATABASE :"service", :"history" FROM PUBLIC, :"runtime";
GRANT CONNECT ON DATABASE :"service", :"history" TO :"runtime";

\connect :"service"
ALTER SCHEMA public OWNER TO :"owner";
REVOKE ALL ON SCHEMA public FROM PUBLIC, :"runtime";
GRANT USAGE ON SCHEMA public TO :"runtime";
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC, :"runtime";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :"runtime";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"runtime";
-- Only `barograph db upgrade` records migrations.
SELECT format('REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM %I', :'runtime')
WHERE to_regclass('public.schema_migrations') IS NOT NULL \gexec

\connect :"history"
ALTER SCHEMA public OWNER TO :"owner";
REVOKE ALL ON SCHEMA public FROM PUBLIC, :"runtime";
GRANT USAGE ON SCHEMA public TO :"runtime";
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC, :"runtime";
SELECT format('GRANT %s ON %I TO %I', rights, name, :'runtime')
FROM (
    VALUES
        ('stance_versions', 'SELECT, INSERT'),
        ('stance_events', 'SELECT, INSERT'),
        ('fences', 'SELECT, INSERT, UPDATE'),
        ('event_heads', 'SELECT, INSERT, UPDATE'),
        ('schema_migrations', 'SELECT')
) AS needed (name, rights)
WHERE to_regclass('public.' || name) IS NOT NULL \gexec
