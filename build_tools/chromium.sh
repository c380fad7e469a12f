#!/bin/sh
# Make sure that there is a Chromium for the tests in a browser: the headless shell, which
# needs less time, or else the whole browser.
set -eu
install() { apt-get install -y -q -o Acquire::Retries=0 -o Acquire::http::Timeout=20 "$1" >/dev/null 2>&1; }

command -v chromium-headless-shell >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium-headless-shell (for the tests in a browser)"
    install chromium-headless-shell && exit 0
    command -v chromium >/dev/null && exit 0
    apt-get update -q >/dev/null
    install chromium-headless-shell || install chromium
elif ! command -v chromium >/dev/null; then
    echo "the tests in a browser need Chromium: install it with 'apt-get install chromium-headless-shell' and run make again" >&2
    exit 1
fi
