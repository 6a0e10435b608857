# SPDX-License-Identifier: Apache-2.0
# awk -f layers.awk layers.txt FILE.[ch]... : prints each include that layers.txt does not allow.

FNR == NR {
    if ($1 !~ /^#/ && NF) {
        for (i = 2; i <= NF; i++)
            ok[$1, $i] = 1
        known[$1] = 1
    }
    next
}

# The nearest row above a path.
function home(p) {
    while (p != "" && !(p in known))
        if (!sub(/\/[^\/]*$/, "", p))
            p = ""
    return p
}

function complain(text) {
    print FILENAME ":" FNR ": " text
    bad = 1
}

/^[ \t]*#[ \t]*include[ \t]*("|<dlo\/)/ {
    target = $0
    sub(/^[^"<]*["<]/, "", target)
    sub(/[">].*$/, "", target)
    if ($0 ~ /<dlo\//)
        target = "client/include/" target
    folder = target
    if (!(target in known) && !sub(/\/[^\/]*$/, "", folder)) {
        complain("\"" target "\" does not name its folder")
        next
    }
    from = FILENAME
    sub(/\/[^\/]*$/, "", from)
    from = home(from)
    to = home(folder)
    if (from == "" || to == "")
        complain("layers.txt has no row for " (from == "" ? FILENAME : target))
    else if (to != from && !((from, to) in ok) && !((from, "*") in ok) && !((FILENAME, to) in ok))
        complain(from " may not include " to)
}

END { exit bad }
