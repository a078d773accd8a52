#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# git gc of a generated repository: the same objects, all of them sound.
# packages: git
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need git

export HOME=$tmp GIT_CONFIG_NOSYSTEM=1
git config --global gc.auto 0
git config --global pack.threads 2
git config --global init.defaultBranch main

# 300 commits to 40 files, as one stream.
awk 'BEGIN {
    for (c = 1; c <= 300; c++) {
        print "commit refs/heads/main"
        print "committer A U Thor <author@example.com> " 1600000000 + c " +0000"
        message = "Change " c "\n"
        printf "data %d\n%s\n", length(message), message
        for (f = c % 5; f < 40; f += 5) {
            text = ""
            for (l = 0; l < 120; l++)
                text = text "line " l " of " f ": " (l % 17 == c % 17 ? c * 7919 % 1009 : l) "\n"
            printf "M 100644 inline dir%d/file%d\ndata %d\n%s\n", f % 4, f, length(text), text
        }
    }
}' >"$tmp/stream"

collect() {
    git init -q . &&
        git fast-import --quiet <"$tmp/stream" &&
        git checkout -q main &&
        git repack -q -a -d -f --depth=50 --window=50 &&
        git gc -q --aggressive --prune=now &&
        git fsck --full --strict >&2 &&
        git count-objects -v | grep -E '^(count|in-pack|packs|garbage)' &&
        git rev-list --objects --all | sort | sha256sum &&
        git rev-parse HEAD && find dir* -type f | sort | xargs sha256sum | sha256sum
}
export -f collect
export tmp
same bash -c collect
