#!/bin/sh
# Restart every web process behind nginx, one after the other, without a failed request.
#
#     deploy/rolling-restart.sh HOSTS_FILE RESTART_COMMAND
#
# HOSTS_FILE is the file that deploy/nginx.conf includes, with lines such as
# `server 10.0.0.11:8080 max_fails=3;`. RESTART_COMMAND is a shell command that restarts one process
# and gets its address as $1:
#
#     deploy/rolling-restart.sh /etc/nginx/barograph-hosts.conf \
#         'systemctl restart "barograph-web@${1##*:}"'
#     deploy/rolling-restart.sh /etc/nginx/barograph-hosts.conf \
#         'ssh "${1%:*}" systemctl restart "barograph-web@${1##*:}"'
#
# For each process, the script marks it `down` in HOSTS_FILE, reloads nginx, waits until nginx has
# finished the requests it had already begun, runs RESTART_COMMAND, waits until /readyz answers 200,
# and puts the process back. Run it as root on the host of nginx. It needs curl and at least two
# processes that you haven't marked `down` yourself; those that you have stay as they are.
#
# If a process does not become ready, the script leaves it `down`, stops, and exits with 1. The other
# processes go on answering. Repair it, and run the script again: it begins with that process.
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

# Tells our `down` from one that the operator wrote.
mark=' down; # by rolling-restart.sh'

# What an earlier run left down comes first.
addresses() {
    awk -v mark="$mark" '
        $1 != "server" { next }
        { is_ours = index($0, mark); sub(/;.*/, "") }
        is_ours { print $2; next }
        !/[[:space:]]down([[:space:]]|$)/ { others = others $2 "\n" }
        END { printf "%s", others }
    ' "$hosts_file"
}

# The new file replaces the old one in one step, so that nginx never reads half of it.
replace_line() {
    awk -v address="$1" -v down="$2" -v mark="$mark" '
        $1 == "server" && ($2 == address || index($2, address ";") == 1) {
            sub(mark, ";")
            if (down) sub(/;/, mark)
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
        echo "$address failed to restart, or is not ready after $READY_SECONDS s. It is down in" \
            "$hosts_file, and the processes after it were not restarted. Look in its log, repair it," \
            "and run this again: it begins with $address. To give it up, delete its line first." >&2
        exit 1
    fi
    replace_line "$address" 0
    reload_nginx
done
echo "restarted $(echo "$all" | grep -c .) processes"
