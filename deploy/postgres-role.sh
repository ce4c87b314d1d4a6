#!/bin/bash
# The service's own role and database: it owns its tables, and is no superuser.
set -euo pipefail
psql --set=ON_ERROR_STOP=1 --set=password="$KEYHOLE_PASSWORD" --username "${POSTGRES_USER:-postgres}" <<'SQL'
CREATE ROLE keyhole LOGIN PASSWORD :'password' NOSUPERUSER NOCREATEDB NOCREATEROLE;
CREATE DATABASE keyhole OWNER keyhole;
REVOKE CONNECT ON DATABASE keyhole FROM PUBLIC;
SQL
