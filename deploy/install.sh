#!/bin/sh
# Makes this checkout the version that the service runs: the program, the command `barograph` and the
# units. Run it as root, once per release. It starts and restarts nothing.
set -eu
cd -P "$(dirname "$0")/.."
make install
ln -sfn "$(pwd -P)" "${ROOT:=}/opt/barograph"
install -m 755 deploy/barograph.sh "$ROOT/usr/local/bin/barograph"
cp deploy/systemd/*.service deploy/systemd/*.timer "$ROOT/etc/systemd/system/"
systemctl daemon-reload
