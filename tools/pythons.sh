#!/bin/sh
# Runs tests on the newer Pythons, also where the machine has only one: `make test-pythons`.
# Each interpreter is unpacked from the Debian suite that has it into .venv/pythons, with the locked
# packages beside it. Nothing is installed on the machine. It needs root, because it uses chroot.
# The arguments go to pytest; without any, it runs the unit tests.
set -eu
cd "$(dirname "$0")/.."
test "$#" -gt 0 || set -- tests/unit

# All signatures are checked, but a mirror may be some days behind.
unpack() { # VERSION SUITE
    root=.venv/pythons/$1
    test -x "$root/usr/bin/python$1" && return
    echo "unpacking Python $1"
    rm -rf "$root"
    mkdir -p .venv/pythons
    mmdebstrap --quiet --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' \
        --include="base-files,ca-certificates,libstdc++6,tzdata,python$1" "$2" "$root"
}

unpack 3.13 trixie
unpack 3.14 forky

for version in 3.13 3.14; do
    echo "testing Python $version"
    root=.venv/pythons/$version
    lock=requirements-dev.txt
    # npm has no network there, and its test is not about Python.
    left_out=--ignore=tests/unit/test_badge_widths.py
    if test $version = 3.14; then
        # It has no wheel for 3.14 yet. The tests of the demo's wallets need it.
        sed '/^coincurve==/,/[^\\]$/d' $lock > "$root/lock.txt"
        lock=$root/lock.txt
        for name in demo_wallets eip712 secp256k1; do
            left_out="$left_out --ignore=tests/unit/test_$name.py"
        done
    fi
    install=".uv/bin/uv pip install --quiet --python-version $version --no-deps
        --target $root/usr/local/lib/python$version/dist-packages"
    $install --only-binary :all: --require-hashes -r "$lock"
    PYTHONPATH=.uv $install --no-cache --no-build-isolation --reinstall ./client . ./demo
    rm -rf "$root/project"
    mkdir "$root/project"
    git ls-files -z | xargs -0 tar -c | tar -x -C "$root/project"
    env -i PATH=/usr/bin LANG=C.UTF-8 HOME=/tmp PYTHONDONTWRITEBYTECODE=1 \
        unshare --mount --pid --fork --mount-proc --root="$root" --wd=/project \
        "/usr/bin/python$version" -m pytest -p no:schemathesis -p no:cacheprovider $left_out "$@"
done
