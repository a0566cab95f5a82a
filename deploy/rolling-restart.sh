#!/bin/sh
# Restart every web process behind nginx, one after the other, without a failed request.
#
#     deploy/rolling-restart.sh HOSTS_FILE RESTART_COMMAND
#
# HOSTS_FILE is the file that deploy/nginx.conf includes, with lines such as
# `server 10.0.0.11:8080 max_fails=3 fail_timeout=5s;`. RESTART_COMMAND is a shell command that restarts one process and gets
# its address as $1:
#
#     deploy/rolling-restart.sh /etc/nginx/barograph-hosts.conf \
#         'systemctl restart "barograph-web@${1##*:}"'
#     deploy/rolling-restart.sh /etc/nginx/barograph-hosts.conf \
#         'ssh "${1%:*}" systemctl restart "barograph-web@${1##*:}"'
#
# For each process, the script marks it `down` in HOSTS_FILE, reloads nginx, waits until nginx has
# finished the requests it had already begun, runs RESTART_COMMAND, waits until /readyz answers 200,
# and puts the process back. Run it as root on the host of nginx. It needs curl and at least two
# processes that are not marked `down`; those that are stay as they are.
#
# If a process does not become ready, the script leaves it `down`, stops, and exits with 1. The other
# processes go on answering. Repair it, remove `down` from its line, and run the script again.
#
# Environment: NGINX is the nginx command (nginx), NGINX_PID its pid file (/run/nginx.pid),
# DRAIN_SECONDS how long to wait for requests (75), READY_SECONDS how long for /readyz (120).
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 HOSTS_FILE RESTART_COMMAND" >&2
    exit 2
fi
hosts_file=$1
restart_command=$2
: "${NGINX:=nginx}" "${NGINX_PID:=/run/nginx.pid}" "${DRAIN_SECONDS:=75}" "${READY_SECONDS:=120}"

addresses() {
    sed -n 's/^[[:space:]]*server[[:space:]]\{1,\}\([^;[:space:]]*\).*;.*/\1 &/p' "$hosts_file" |
        awk '!/[[:space:]]down[;[:space:]]/ { print $1 }'
}

# The new file replaces the old one in one step, so that nginx never reads half of it.
replace_line() {
    awk -v address="$1" -v down="$2" '
        $1 == "server" && ($2 == address || $2 == address ";") {
            sub(/[[:space:]]+down/, "")
            if (down) sub(/;/, " down;")
        }
        { print }
    ' "$hosts_file" > "$hosts_file.new"
    chmod 644 "$hosts_file.new"
    mv "$hosts_file.new" "$hosts_file"
}

reload_nginx() {
    $NGINX -t -q
    before=$(worker_pids)
    $NGINX -s reload
    # New workers know the new hosts. The old ones take no new connection, and end after their last
    # response.
    wait_up_to "$DRAIN_SECONDS" ended "$before" ||
        echo "nginx still has requests from before after $DRAIN_SECONDS s; going on" >&2
}

worker_pids() {
    ps -A -o pid= -o ppid= | awk -v master="$(cat "$NGINX_PID")" '$2 == master { print $1 }'
}

ended() {
    for pid in $1; do
        if kill -0 "$pid" 2> /dev/null; then return 1; fi
    done
}

is_ready() {
    curl --silent --fail --max-time 2 --output /dev/null "http://$1/readyz"
}

wait_up_to() {
    seconds=$1
    shift
    while ! "$@"; do
        [ "$seconds" -gt 0 ] || return 1
        seconds=$((seconds - 1))
        sleep 1
    done
}

all=$(addresses)
if [ "$(echo "$all" | grep -c .)" -lt 2 ]; then
    echo "$hosts_file names fewer than two processes that are up: a restart would fail requests" >&2
    exit 1
fi
for address in $all; do
    echo "restarting $address"
    replace_line "$address" 1
    reload_nginx
    if ! sh -c "$restart_command" sh "$address" ||
        ! wait_up_to "$READY_SECONDS" is_ready "$address"; then
        echo "$address failed to restart, or is not ready after $READY_SECONDS s." \
            "It stays down in $hosts_file; the others were not restarted." >&2
        exit 1
    fi
    replace_line "$address" 0
    reload_nginx
done
echo "restarted $(echo "$all" | grep -c .) processes"
