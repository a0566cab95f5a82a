#!/bin/sh
# Makes a backup in a new folder, then deletes the oldest ones. This keeps the newest 14:
#     backup.sh /var/backups/barograph 14
# If the backup fails, the script deletes nothing.
set -eu
folder=$1 keep=$2
[ "$keep" -ge 1 ]
"$(dirname "$0")/../.venv/bin/barograph" backup "$folder/$(date -u +%Y-%m-%dT%H-%M-%SZ)"
cd "$folder"
# Delete what a killed backup left behind a day ago or earlier.
find . -maxdepth 1 -name '.*.incomplete-*' -mtime +0 -exec rm -rf {} +
ls -d 20*Z | head -n "-$keep" | xargs -r rm -rf --
