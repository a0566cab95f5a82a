#!/bin/sh
# Makes a backup in a new folder, and keeps the newest ones: backup.sh /var/backups/barograph 14
set -eu
folder=$1 keep=$2
"$(dirname "$0")/../.venv/bin/barograph" backup "$folder/$(date -u +%Y-%m-%dT%H-%M-%SZ)"
# What an interrupted backup left behind.
find "$folder" -maxdepth 1 -name '.*.incomplete' -mtime +0 -exec rm -rf {} +
ls -d "$folder"/20*Z | head -n "-$keep" | xargs -r rm -rf --
