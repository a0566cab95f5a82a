#!/bin/sh
# Creates the passwords and keys for the profile `cluster` of compose.yaml, in a new folder secrets/.
# Run it once, in the folder of compose.yaml. Keep a copy: without the keys, the log can't go on.
set -eu
umask 077
mkdir secrets
cd secrets
password() { openssl rand -hex 24; }
superuser=$(password) owner=$(password) service=$(password) valkey=$(password)

urls() {
    echo "BAROGRAPH_DATABASE_URL=postgresql://$1@postgresql/barograph"
    echo "BAROGRAPH_HISTORY_URL=postgresql://$1@postgresql/barograph_history"
}
urls "barograph_owner:$owner" > owner.env
urls "barograph:$service" > barograph.env
cat >> barograph.env << END
BAROGRAPH_LIMITS_URL=redis://barograph:$valkey@valkey/0
BAROGRAPH_KEY_PEPPER=$(openssl rand -hex 32)
BAROGRAPH_HISTORY_KEY=$(openssl rand -base64 32)
BAROGRAPH_WEBHOOK_KEY=$(openssl rand -base64 32)
END

# Containers of other users read these files. Nobody else can enter the folder.
umask 022
printf %s "$superuser" > postgres-password
cat > passwords.sql << END
ALTER ROLE barograph_owner PASSWORD '$owner';
ALTER ROLE barograph PASSWORD '$service';
END
cat > valkey.acl << END
user default off
user barograph on >$valkey ~barograph:limits:* +ping +info +evalsha +script|load +time +hmget +hset +lindex +lpop +llen +rpush +pexpire
END
