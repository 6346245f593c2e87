#!/bin/sh
# Makes a virtual environment with vmafx, its extras and the tools of the gates: setup.sh VENV [PYTHON]
set -eu

venv=$1
wanted=${2:-}

# What the tests need from the system, one per line: a command that must be there, and its Debian package.
system_packages='
setpriv util-linux
'

supported='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() {
    if [ -n "$wanted" ]; then
        set -- "$wanted"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11
    fi
    for candidate; do
        if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$supported" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    if [ -n "$wanted" ]; then
        echo "setup: PYTHON=$wanted is not Python 3.11 or later" >&2
    else
        echo "setup: no Python 3.11 or later on PATH; name one, for example: make PYTHON=/opt/python3.13/bin/python3" >&2
    fi
    return 1
}

missing_packages() {
    echo "$system_packages" | while read -r command package; do
        if [ -n "$command" ] && ! command -v "$command" >/dev/null 2>&1; then
            echo "$package"
        fi
    done
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
    fi
}

install_packages() {
    if [ "$(uname -s)" != Linux ]; then
        return
    fi
    packages=$(missing_packages)
    if [ -z "$packages" ]; then
        return
    fi
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        echo "setup: installing" $packages
        { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $packages; } >/dev/null
    else
        echo "setup: not installed, some tests need them:" $packages >&2
    fi
}

python=$(find_python)
install_packages

version='import sys; print("%d.%d" % sys.version_info[:2])'
if [ -x "$venv/bin/python" ] && [ "$("$venv/bin/python" -c "$version" 2>/dev/null)" != "$("$python" -c "$version")" ]; then
    if [ -n "$wanted" ] || ! "$venv/bin/python" -c "$supported" 2>/dev/null; then
        rm -rf "$venv"
    fi
fi
if ! [ -x "$venv/bin/python" ]; then
    echo "setup: making $venv with $("$python" --version) ($python)"
    "$python" -m venv "$venv"
fi

pip() {
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}

if ! "$venv/bin/python" -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
    pip install --upgrade 'pip>=25.1' # the first that knows dependency groups
fi
echo "setup: installing vmafx and its tools into $venv"
pip install --editable '.[engine,rclone]' --group dev
