#!/bin/sh
# Runs a command with the service's settings and as its user: sudo barograph doctor
# BAROGRAPH_ variables that you set override the file. ROOT is empty except in a rehearsal.
given=$(export -p | grep ' BAROGRAPH_')
set -a
. "$ROOT/etc/barograph/barograph.env"
set +a
eval "$given"
program=$ROOT/opt/barograph/.venv/bin/barograph
[ -z "$ROOT" ] || exec "$program" "$@"
exec runuser -u barograph -- "$program" "$@"
