# Makes this shell one host of the rehearsal in docs/operating.md, on one machine and without root:
#
#   . deploy/rehearsal/host.sh 127.0.0.11
#
# Files go below $ROOT. The programs in bin/ stand in for those that need root or other machines.
export ADDRESS=$1 FIRST=127.0.0.11 OTHERS="127.0.0.12 127.0.0.13" NAME=127.0.0.1:8443
export DB=${DB:-127.0.0.1:5432} VALKEY=${VALKEY:-127.0.0.1:6379}
export PASSWORD=rehearsal OWNER_PASSWORD=rehearsal-owner
export RESTART='ssh "${1%:*}" sudo systemctl restart "barograph-web@${1##*:}"'
export REHEARSAL=${REHEARSAL:-$PWD/rehearsal}
export ROOT=$REHEARSAL/$ADDRESS NGINX_PID=$REHEARSAL/$FIRST/run/nginx.pid
export CURL_CA_BUNDLE=$REHEARSAL/$FIRST/etc/letsencrypt/live/127.0.0.1/fullchain.pem
export PATH=$PWD/deploy/rehearsal/bin:$ROOT/usr/local/bin:$PWD/.venv/bin:$PATH
for folder in etc/nginx/conf.d etc/letsencrypt/live etc/systemd/system opt run usr/local/bin \
    var/backups var/cache var/lib var/log/nginx; do
    mkdir -p "$ROOT/$folder"
done
