#!/bin/sh
# Make sure that there is a Chromium for the tests in a browser.
set -eu
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium (for the tests in a browser)"
    apt-get install -y -q chromium >/dev/null || { apt-get update -q >/dev/null && apt-get install -y -q chromium >/dev/null; }
else
    echo "the tests in a browser need Chromium: install it with 'apt-get install chromium' and run make again" >&2
    exit 1
fi
