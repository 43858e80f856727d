# SPDX-License-Identifier: MIT
# Writes a history for git fast-import: COMMITS commits over 60 files, the same ones every time.
BEGIN {
    state = 7
    for (commit = 1; commit <= commits; commit++) {
        printf "commit refs/heads/main\nmark :%d\n", commit
        printf "committer Some Body <somebody@example.org> %d +0000\n", 1600000000 + commit * 600
        message = sprintf("Change number %d\n\nBecause of %d.\n", commit, commit % 17)
        printf "data %d\n%s", length(message), message
        for (change = 0; change < 3; change++) {
            state = (state * 69069 + 1) % 4294967296
            file = int(state / 65536) % 60
            lines[file] = lines[file] sprintf("line %d of commit %d\n", state % 1000, commit)
            if (length(lines[file]) > 6000) {
                lines[file] = substr(lines[file], 3001)
            }
            printf "M 100644 inline dir%d/file%d.txt\ndata %d\n%s\n", file % 7, file,
                length(lines[file]), lines[file]
        }
    }
}
