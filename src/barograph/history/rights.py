"""Who may change the history on PostgreSQL.

The triggers refuse changes, but a table's owner can disable them. So the service should connect as
a role that owns nothing: `deploy/postgresql-roles.sql` creates one.
"""

from barograph.errors import ConfigurationError
from barograph.kit.database import POSTGRESQL, Database

RUN_AS_OTHER_ROLE = (
    "connect as the run-time role that deploy/postgresql-roles.sql creates, and use the owner's "
    "URL only for `barograph db upgrade`, `db copy` and `restore`"
)


async def require_rights(history: Database) -> None:
    """Refuse a history that a role other than its owner and superusers could rewrite.

    Raises:
        ConfigurationError: a role has too many rights; the message has the statements against it.
        DatabaseUnavailable: the database cannot be read.
    """
    if history.engine == POSTGRESQL and (rows := await history.fetch(_EXCESSIVE)):
        raise ConfigurationError(
            "roles other than the owner have more rights on the record than they need: run as the "
            f"owner of the history's database `{'; '.join(row[0] for row in rows)}`"
        )


async def connects_as_owner(database: Database) -> bool:
    """Whether our own role could disable the triggers, as an owner or a superuser."""
    if database.engine != POSTGRESQL:
        return False
    ((is_owner,),) = await database.fetch(_IS_OWNER)
    return bool(is_owner)


# Grants are read from the tables themselves, so that each REVOKE names the role it was granted to.
# A grantee of 0 is PUBLIC. Superusers are members of every role.
_EXCESSIVE = """
WITH allowed (name, rights) AS (
    VALUES
        ('stance_versions', ARRAY['SELECT', 'INSERT']),
        ('stance_events', ARRAY['SELECT', 'INSERT']),
        ('fences', ARRAY['SELECT', 'INSERT', 'UPDATE']),
        ('event_heads', ARRAY['SELECT', 'INSERT', 'UPDATE']),
        ('schema_migrations', ARRAY['SELECT'])
),
record AS (
    SELECT oid, relname, relowner, relacl, rights FROM pg_class JOIN allowed ON relname = name
    WHERE relnamespace = 'public'::regnamespace
),
granted AS (
    SELECT record.*, acl.* FROM record, aclexplode(relacl) AS acl
    UNION ALL
    SELECT record.*, acl.* FROM record
    JOIN pg_attribute ON attrelid = oid, aclexplode(attacl) AS acl
)
SELECT format(
    'REVOKE %s ON %I FROM %s', privilege_type, relname,
    CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
) AS statement
FROM granted
WHERE privilege_type <> ALL (rights)
    AND CASE grantee WHEN 0 THEN TRUE ELSE NOT pg_has_role(grantee, relowner, 'MEMBER') END
UNION
SELECT format('REVOKE pg_write_all_data FROM %I', pg_get_userbyid(member))
FROM pg_auth_members, record
WHERE roleid = 'pg_write_all_data'::regrole AND NOT pg_has_role(member, relowner, 'MEMBER')
    AND has_database_privilege(member, current_database(), 'CONNECT')
ORDER BY statement
"""
_IS_OWNER = """
SELECT coalesce(bool_or(pg_has_role(owner, 'MEMBER')), FALSE) FROM (
    SELECT relowner FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    UNION
    SELECT nspowner FROM pg_namespace WHERE nspname = 'public'
) AS owners (owner)
"""
