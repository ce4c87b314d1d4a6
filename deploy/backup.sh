#!/bin/bash
# Every night a dump of the database, read back before it counts, the newest 14 of them. /metrics says how
# old the newest is, and KeyholeBackupOld when that is too old. "once" makes one and ends.
set -euo pipefail
umask 077  # the service sees how old they are, and reads none
folder=${BACKUPS:-/backups} keep=${KEEP:-14}

dump() {
  local path partial=$folder/keyhole.partial  # of one name: what failed is overwritten, not piled up
  path=$folder/keyhole-$(date --utc +%Y%m%dT%H%M%SZ).dump
  pg_dump --format=custom --file="$partial" || return
  pg_restore --file=/dev/null "$partial" || return
  mv "$partial" "$path"
  echo "$path"
  find "$folder" -name 'keyhole-*.dump' | sort | head --lines=-"$keep" | xargs --no-run-if-empty rm --
}

if [ "${1:-}" = once ]; then dump; exit; fi
while true; do
  if dump; then sleep 86400; else
    echo "the backup failed: no earlier one was deleted, and the next try is in an hour" >&2
    sleep 3600
  fi
done
